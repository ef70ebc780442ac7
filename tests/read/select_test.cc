#include "xplane_time/select.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "tests/read/says.h"
#include "tests/support/trace_builder.h"
#include "xplane_time/read.h"
#include "xplane_time/report.h"

namespace xplane_time::testing {
namespace {

using Names = std::vector<std::string>;

// A trace of empty planes, which owns its bytes.
class PlanesOnly {
 public:
  explicit PlanesOnly(const Names& names) {
    TraceBuilder t;
    for (const std::string& name : names) t.Plane(name);
    bytes_ = t.Bytes();
    Diagnostics diagnostics;
    auto trace = OpenTraceFromMemory(bytes_, "trace", {}, &diagnostics);
    EXPECT_TRUE(trace.ok()) << trace.status();
    if (trace.ok()) trace_ = *std::move(trace);
  }
  const Trace& trace() const { return trace_; }

  // The names of the selected planes, or the text of the error.
  Names Select(std::string_view selector) const {
    auto selection = SelectDevices(trace_, selector);
    if (!selection.ok()) return {selection.status().ToString()};
    Names names;
    for (const DevicePlane& device : selection->planes) {
      names.emplace_back(trace_.planes[device.plane].name);
    }
    return names;
  }
  Names SelectAny(std::string_view selector) const {
    auto planes = SelectPlanes(trace_, selector);
    if (!planes.ok()) return {planes.status().ToString()};
    Names names;
    for (const uint32_t plane : *planes) names.emplace_back(trace_.planes[plane].name);
    return names;
  }

 private:
  std::string bytes_;
  Trace trace_;
};

struct KindCase {
  const char* plane;
  std::string kind;  // empty: not a device
  std::optional<int64_t> ordinal = std::nullopt;
};

TEST(DevicePlanes, KindsComeFromTheWholeName) {
  const KindCase cases[] = {
      {"/device:GPU:0", "gpu", 0},
      {"/device:GPU:7 [123]", "gpu", 7},
      {"/device:GPU:12", "gpu", 12},
      {"/device:GPU:", "custom"},
      {"/device:GPU:-1", "custom"},
      {"/device:GPU:x", "custom"},
      {"/device:GPU:7x", "custom"},
      {"/device:GPU:7 [123", "custom"},
      {"/device:GPU:7 other", "custom"},
      {"/device:GPU:99999999999999999999", "custom"},
      {"/device:gpu:0", "custom", 0},
      {" /device:GPU:0", ""},
      {"my gpu plane", ""},
      {"GPU", ""},
      {"/device:TPU:0", "tpu", 0},
      {"/device:TPU:3 [9]", "tpu", 3},
      {"/device:TPU:0 SparseCore 1", "tpu", 0},
      {"/device:TPU:2 SparseCore 0 [9]", "tpu", 2},
      {"/device:TPU:0 SparseCore", "custom"},
      {"/device:TPU:0 SparseCore x", "custom"},
      {"/device:TPU:0 Other 1", "custom"},
      {"#Chip0 TPU Non-Core HBM", ""},
      {"#Chip TPU Non-Core HBM", ""},
      {"/device:CUSTOM:Megascale Trace", "custom"},
      {"/device:CUSTOM:", "custom"},
      {"/custom:legacy", "custom"},
      {"/virtualdevice:0", "custom"},
      {"/host:CPU", "cpu"},
      {"/host:CPU [77]", "cpu"},
      {"/host:CPU [77", ""},
      {"/host:CPUs", ""},
      {"Host CPUs", ""},
      {"/host:metadata", ""},
      {"/host:__ScopeRangeCallStack__", ""},
      {"Task Environment", ""},
      {"Syscalls", ""},
      {"", ""},
  };
  for (const KindCase& c : cases) {
    SCOPED_TRACE(c.plane);
    const PlanesOnly planes({c.plane});
    const std::vector<DevicePlane> devices = FindDevicePlanes(planes.trace());
    ASSERT_EQ(devices.size(), c.kind.empty() ? 0u : 1u);
    if (devices.empty()) continue;
    EXPECT_EQ(DeviceKindName(devices[0].kind), c.kind);
    EXPECT_EQ(devices[0].ordinal, c.ordinal);
  }
}

const Names& Everything() {
  static const Names* names = new Names{"/host:metadata",
                                        "/device:GPU:0",
                                        "/device:GPU:2",
                                        "/host:CPU",
                                        "/device:GPU:10 [5]",
                                        "/device:TPU:0",
                                        "/device:TPU:0 SparseCore 0",
                                        "/device:CUSTOM:Megascale Trace",
                                        "my gpu plane"};
  return *names;
}

TEST(DeviceNameTest, TheOrdinalIsThereOnce) {
  const struct {
    const char* plane;
    std::optional<int64_t> ordinal;
    const char* name;
  } cases[] = {{"/device:GPU:1", 1, "GPU:1"},
               {"/device:GPU:10 [5]", 10, "GPU:10 [5]"},
               {"/device:TPU:0 SparseCore 1", 0, "TPU:0 SparseCore 1"},
               {"/device:CUSTOM:npu:10", 1, "CUSTOM:npu:10:1"},
               {"/device:CUSTOM:npu:10:1", 1, "CUSTOM:npu:10:1"},
               {"/host:CPU", 3, "CPU:3"},
               {"/host:CPU", std::nullopt, "CPU"}};
  for (const auto& c : cases) EXPECT_EQ(DeviceName({c.plane, c.ordinal, "", 0}), c.name);
}

TEST(SelectDevices, Selectors) {
  const std::string gpu0 = "/device:GPU:0", gpu2 = "/device:GPU:2", gpu10 = "/device:GPU:10 [5]";
  const std::string tpu = "/device:TPU:0", sparse = "/device:TPU:0 SparseCore 0";
  const std::string custom = "/device:CUSTOM:Megascale Trace", cpu = "/host:CPU";
  const struct {
    const char* selector;
    Names planes;
  } cases[] = {
      {"", {gpu0, gpu2, gpu10, tpu, sparse, custom}},
      {"all", {gpu0, gpu2, cpu, gpu10, tpu, sparse, custom}},
      {"gpu", {gpu0, gpu2, gpu10}},
      {"gpu:0", {gpu0}},
      {"gpu:10", {gpu10}},
      {"gpu:2,0", {gpu0, gpu2}},
      {"gpu:0,0", {gpu0}},
      {"tpu", {tpu, sparse}},
      {"tpu:0", {tpu, sparse}},
      {"cpu", {cpu}},
      {"cpu:3", {cpu}},  // device_ordinal distinguishes the devices later
      {"custom", {custom}},
      {"re:GPU", {gpu0, gpu2, gpu10}},
      {"re:^/device:GPU:[02]$", {gpu0, gpu2}},
      {"re:(?i)gpu", {gpu0, gpu2, gpu10}},  // "my gpu plane" is not a device
      {"re:", {gpu0, gpu2, cpu, gpu10, tpu, sparse, custom}},
      {"/device:GPU:2", {gpu2}},
      {"/host:CPU", {cpu}},
      {"GPU:0", {gpu0}},  // as tables print them
      {"GPU", {gpu0, gpu2, gpu10}},
      {"CPU:0", {cpu}},
      {"TPU:0 SparseCore 0", {sparse}},
      {"CUSTOM:Megascale Trace", {custom}},
  };
  const PlanesOnly planes(Everything());
  for (const auto& c : cases) {
    SCOPED_TRACE(c.selector);
    EXPECT_EQ(planes.Select(c.selector), c.planes);
  }
}

TEST(SelectDevices, BadSelectors) {
  const PlanesOnly planes(Everything());
  for (const char* selector : {"gpus",
                               "gp",
                               "gpu:",
                               "gpu:x",
                               "gpu:0,",
                               "gpu:,0",
                               "gpu:-1",
                               "gpu:+1",
                               "gpu:0 ",
                               "gpu: 0",
                               "gpu:0;1",
                               "gpu:0x1",
                               "gpu:99999999999999999999",
                               "all:0",
                               "re",
                               "re:(",
                               "re:*",
                               ":0",
                               " ",
                               "device:GPU:0"}) {
    for (const absl::Status& status : {SelectDevices(planes.trace(), selector).status(),
                                       SelectPlanes(planes.trace(), selector).status()}) {
      EXPECT_TRUE(absl::IsInvalidArgument(status)) << selector << ": " << status;
      EXPECT_TRUE(Says(status, std::string("--device ") + selector)) << status;
    }
  }
}

TEST(SelectDevices, NothingMatchesListsTheDevices) {
  const PlanesOnly planes({"/device:GPU:0", "/host:metadata"});
  for (const char* selector : {"tpu", "gpu:1", "cpu", "custom", "re:nothing", "/device:GPU:9"}) {
    const absl::Status status = SelectDevices(planes.trace(), selector).status();
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << selector << ": " << status;
    for (const char* part : {selector, "trace: ", "gpu:0 = /device:GPU:0 (0 events)"}) {
      EXPECT_TRUE(Says(status, part)) << part << " in " << status;
    }
    EXPECT_FALSE(Says(status, "/host:metadata")) << status;  // not a device
  }
}

TEST(SelectDevices, AnOrdinalThatIsNotThereIsAnError) {
  const PlanesOnly planes(Everything());
  const absl::Status status = SelectDevices(planes.trace(), "gpu:0,1").status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_TRUE(Says(status, "--device gpu:0,1: the trace has no gpu:1; it has gpu:0,2,10"))
      << status;
}

TEST(SelectDevices, TheDefaultTakesTheCpuOnlyWithoutAccelerators) {
  const struct {
    Names planes, selected;
  } cases[] = {
      {{"/host:CPU", "/host:metadata"}, {"/host:CPU"}},
      {{"/host:CPU", "/device:GPU:0"}, {"/device:GPU:0"}},  // although it is idle
      {{"/host:CPU", "/device:CUSTOM:x"}, {"/device:CUSTOM:x"}},
      {{"/host:CPU", "#Chip0 TPU Non-Core HBM"}, {"/host:CPU"}},
      {{"/host:CPU", "my gpu plane"}, {"/host:CPU"}},
      {{"/host:CPU", "/host:CPU [2]"}, {"/host:CPU", "/host:CPU [2]"}},
  };
  for (const auto& c : cases) EXPECT_EQ(PlanesOnly(c.planes).Select(""), c.selected);
  const PlanesOnly none({"/host:metadata"});
  EXPECT_TRUE(absl::IsFailedPrecondition(SelectDevices(none.trace(), "").status()));
}

TEST(SelectDevices, OrdinalsAreKeptForCpuDevices) {
  const PlanesOnly planes({"/host:CPU"});
  auto some = SelectDevices(planes.trace(), "cpu:1,3");
  ASSERT_TRUE(some.ok());
  EXPECT_EQ(some->planes[0].ordinal, std::nullopt);
  EXPECT_TRUE(some->WantsOrdinal(1));
  EXPECT_FALSE(some->WantsOrdinal(2));
  EXPECT_TRUE(some->WantsOrdinal(3));
  auto all = SelectDevices(planes.trace(), "cpu");
  ASSERT_TRUE(all.ok());
  EXPECT_TRUE(all->WantsOrdinal(2));
}

TEST(SelectPlanes, AlsoPlanesThatAreNoDevices) {
  const PlanesOnly planes(Everything());
  EXPECT_EQ(planes.SelectAny("all"), Everything());
  EXPECT_EQ(planes.SelectAny("/host:metadata"), Names{"/host:metadata"});
  EXPECT_EQ(planes.SelectAny("re:gpu|meta"), (Names{"/host:metadata", "my gpu plane"}));
  EXPECT_EQ(planes.SelectAny("gpu:2"), Names{"/device:GPU:2"});
  EXPECT_TRUE(absl::IsFailedPrecondition(SelectPlanes(planes.trace(), "re:nothing").status()));
}

// One plane holds all devices of a host.
TEST(SelectPlanes, NoSingleDeviceOfAHost) {
  const PlanesOnly planes(Everything());
  const absl::Status status = SelectPlanes(planes.trace(), "cpu:0").status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_TRUE(Says(status, "--device cpu:0: the plane /host:CPU holds all")) << status;
  EXPECT_EQ(planes.SelectAny("cpu"), Names{"/host:CPU"});
}

TEST(SelectPlanes, RegexesSeeBytesNotCharacters) {
  const PlanesOnly planes({"bad \xff name", "/host:CPU"});
  EXPECT_EQ(planes.SelectAny("re:bad . name"), Names{"bad \xff name"});
}

}  // namespace
}  // namespace xplane_time::testing
