#include "power/visible_devices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <ostream>

#include "tests/support/random.h"

namespace xplane_time::power {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

using Ordinals = std::map<int32_t, size_t>;

// Two of the ids have a common prefix.
const std::vector<GpuIdentity> kFour = {
    {"GPU-aa11", "H100"}, {"GPU-bb22", "H100"}, {"GPU-bb33", "H100"}, {"GPU-cc44", "H100"}};
const std::vector<GpuIdentity> kMixed = {{"GPU-aa11", "L4"}, {"GPU-bb22", "H100"}};

struct MaskCase {
  std::string name;
  std::string mask;
  Ordinals want;
};

std::ostream& operator<<(std::ostream& out, const MaskCase& c) { return out << c.name; }

class CudaMask : public ::testing::TestWithParam<MaskCase> {};

TEST_P(CudaMask, NamesDevices) {
  const Visibility visible = VisibleDevices(kFour, {{"CUDA_VISIBLE_DEVICES", GetParam().mask}}, {});
  EXPECT_EQ(visible.device_of, GetParam().want);
  for (size_t place = 0; place < kFour.size(); ++place) {
    const auto is_it = [&](const auto& each) { return each.second == place; };
    EXPECT_EQ(visible.MaySee(place), std::ranges::any_of(GetParam().want, is_it)) << place;
  }
  EXPECT_EQ(visible.unknown, "");
}

INSTANTIATE_TEST_SUITE_P(
    VisibleDevices, CudaMask,
    ::testing::Values(
        MaskCase{"OneIndex", "2", {{0, 2}}}, MaskCase{"OrderOfTheList", "2,0", {{0, 2}, {1, 0}}},
        MaskCase{"AllReordered", "3,2,1,0", {{0, 3}, {1, 2}, {2, 1}, {3, 0}}},
        MaskCase{"Empty", "", {}}, MaskCase{"MinusOne", "-1", {}},
        MaskCase{"MinusOneStops", "0,2,-1,1", {{0, 0}, {1, 2}}},
        MaskCase{"OutOfRangeStops", "1,4,0", {{0, 1}}},
        MaskCase{"FarOutOfRange", "99999999999999999999999,0", {}},
        MaskCase{"Word", "NoDevFiles", {}}, MaskCase{"Spaces", " 1, 0", {{0, 1}, {1, 0}}},
        MaskCase{"AsStrtoul", "1gpu2,+2ampere", {{0, 1}, {1, 2}}},
        MaskCase{"TrailingComma", "1,", {{0, 1}}}, MaskCase{"OnlyCommas", ",,", {}},
        MaskCase{"TwiceIsNone", "0,1,0", {}}, MaskCase{"Uuid", "GPU-cc44", {{0, 3}}},
        MaskCase{"UuidsInOrder", "GPU-cc44,GPU-aa11", {{0, 3}, {1, 0}}},
        MaskCase{"UniquePrefix", "GPU-c,GPU-bb3", {{0, 3}, {1, 2}}},
        MaskCase{"AmbiguousPrefixStops", "GPU-aa,GPU-bb,GPU-cc", {{0, 0}}},
        MaskCase{"UnknownUuidStops", "GPU-aa11,GPU-zz,GPU-cc44", {{0, 0}}},
        MaskCase{"UuidTwiceIsNone", "GPU-aa11,GPU-aa", {}},
        MaskCase{"IndexAmongUuidsStops", "GPU-aa11,1", {{0, 0}}},
        MaskCase{"UuidAmongIndicesStops", "1,GPU-aa11", {{0, 1}}},
        MaskCase{"LongerThanTheUuid", "GPU-aa11f", {}}, MaskCase{"Lowercase", "gpu-aa11", {}}),
    [](const auto& test) { return test.param.name; });

TEST(VisibleDevices, AllWithoutAMask) {
  const Visibility visible = VisibleDevices(kFour, {}, {});
  EXPECT_EQ(visible.device_of, (Ordinals{{0, 0}, {1, 1}, {2, 2}, {3, 3}}));
  EXPECT_TRUE(visible.MaySee(0) && visible.MaySee(3));
}

TEST(VisibleDevices, NoDevices) {
  EXPECT_THAT(VisibleDevices({}, {}, {}).device_of, IsEmpty());
  EXPECT_THAT(VisibleDevices({}, {{"CUDA_VISIBLE_DEVICES", "0"}}, {}).device_of, IsEmpty());
}

TEST(VisibleDevices, TheContainersVariableIsNotCudas) {
  const Visibility visible = VisibleDevices(kFour, {{"NVIDIA_VISIBLE_DEVICES", "2"}}, {});
  EXPECT_EQ(visible.device_of.size(), 4u);
}

TEST(VisibleDevices, HiddenDevicesAreNotSeen) {
  const Visibility visible = VisibleDevices(kFour, {{"CUDA_VISIBLE_DEVICES", "2"}}, {});
  EXPECT_TRUE(visible.MaySee(2));
  EXPECT_FALSE(visible.MaySee(0));
}

TEST(VisibleDevices, FastestFirstIsUnknownAmongSeveralModels) {
  for (const PowerEnvironment& environment :
       {PowerEnvironment{}, PowerEnvironment{{"CUDA_VISIBLE_DEVICES", "0"}},
        PowerEnvironment{{"CUDA_VISIBLE_DEVICES", "1,0"},
                         {"CUDA_DEVICE_ORDER", "FASTEST_FIRST"}}}) {
    const Visibility visible = VisibleDevices(kMixed, environment, {});
    EXPECT_THAT(visible.device_of, IsEmpty());
    EXPECT_THAT(visible.unknown, HasSubstr("CUDA_DEVICE_ORDER=PCI_BUS_ID"));
    EXPECT_TRUE(visible.MaySee(0));
    EXPECT_TRUE(visible.MaySee(1));
  }
}

TEST(VisibleDevices, SeveralModelsInPciOrder) {
  PowerEnvironment environment = {{"CUDA_DEVICE_ORDER", "PCI_BUS_ID"}};
  EXPECT_EQ(VisibleDevices(kMixed, environment, {}).device_of, (Ordinals{{0, 0}, {1, 1}}));
  environment["CUDA_VISIBLE_DEVICES"] = "1";
  EXPECT_EQ(VisibleDevices(kMixed, environment, {}).device_of, (Ordinals{{0, 1}}));
}

TEST(VisibleDevices, SeveralModelsByUuid) {
  EXPECT_EQ(VisibleDevices(kMixed, {{"CUDA_VISIBLE_DEVICES", "GPU-bb,GPU-aa"}}, {}).device_of,
            (Ordinals{{0, 1}, {1, 0}}));
  // No device is visible, in any order.
  const Visibility none = VisibleDevices(kMixed, {{"CUDA_VISIBLE_DEVICES", "-1"}}, {});
  EXPECT_EQ(none.unknown, "");
  EXPECT_FALSE(none.MaySee(0));
}

const std::vector<GpuIdentity> kSplit = {{"GPU-aa11", "A100", {"MIG-11", "MIG-12"}, true},
                                         {"GPU-bb22", "A100"},
                                         {"GPU-cc33", "A100", {"MIG-31"}, true}};

TEST(VisibleDevices, AnInstanceIsItsGpuAndEndsTheList) {
  const auto with = [](const std::string& mask) {
    return VisibleDevices(kSplit, {{"CUDA_VISIBLE_DEVICES", mask}}, {}).device_of;
  };
  EXPECT_THAT(with("MIG-12"), ElementsAre(Pair(0, 0u)));
  EXPECT_THAT(with("MIG-3"), ElementsAre(Pair(0, 2u)));
  EXPECT_THAT(with("MIG-31,MIG-11"), ElementsAre(Pair(0, 2u)));
  EXPECT_THAT(with("MIG-1"), IsEmpty());  // ambiguous: a prefix of two instances
  EXPECT_THAT(with("MIG-GPU-aa11/7/0"), ElementsAre(Pair(0, 0u)));
  EXPECT_THAT(with("MIG-GPU-zz/7/0"), IsEmpty());
  EXPECT_THAT(with("GPU-cc33,GPU-bb22"), ElementsAre(Pair(0, 2u)));  // its first instance
  EXPECT_THAT(with("1,0,2"), ElementsAre(Pair(0, 1u), Pair(1, 0u)));
}

TEST(VisibleDevices, ASplitGpuAmongOthersNeedsAName) {
  EXPECT_THAT(VisibleDevices(kSplit, {}, {}).unknown, HasSubstr("MIG"));
  EXPECT_THAT(VisibleDevices({kSplit[0]}, {}, {}).device_of, ElementsAre(Pair(0, 0u)));
}

TEST(VisibleDevices, TheMapIsTheWholeAnswer) {
  const Visibility visible = VisibleDevices(kMixed, {{"CUDA_VISIBLE_DEVICES", "0"}},
                                            {{0, "GPU-bb22"}, {3, "GPU-aa"}, {4, "GPU-zz"}});
  EXPECT_EQ(visible.device_of, (Ordinals{{0, 1}, {3, 0}}));
  EXPECT_THAT(visible.not_found, ElementsAre("GPU-zz"));
  EXPECT_TRUE(visible.MaySee(0) && visible.MaySee(1));
}

TEST(VisibleDevices, AMapOfOtherDevicesSaysNothing) {
  const Visibility visible =
      VisibleDevices(kFour, {{"CUDA_VISIBLE_DEVICES", "1"}}, {{0, "0000:03:00.0"}});
  EXPECT_EQ(visible.device_of, (Ordinals{{0, 1}}));
  EXPECT_THAT(visible.not_found, ElementsAre("0000:03:00.0"));
}

TEST(VisibleDevices, AnInstanceInTheMap) {
  EXPECT_EQ(VisibleDevices(kSplit, {}, {{0, "MIG-31"}}).device_of, (Ordinals{{0, 2}}));
}

// For any text in the variables, the ordinals are 0, 1, ... and belong to different devices.
TEST(VisibleDevices, AnyTextGivesDistinctDevices) {
  xplane_time::testing::Random random(20240601);
  const std::string alphabet = "0123-,+ GPUMIabc/x";
  for (int round = 0; round < 20'000; ++round) {
    std::string mask = random.OneIn(2) ? "GPU-" : "";
    for (int64_t n = random.Below(14); n > 0; --n) {
      mask += alphabet[static_cast<size_t>(random.Below(static_cast<int64_t>(alphabet.size())))];
    }
    for (const auto* devices : {&kFour, &kSplit, &kMixed}) {
      const Visibility visible = VisibleDevices(*devices, {{"CUDA_VISIBLE_DEVICES", mask}}, {});
      std::vector<bool> seen(devices->size(), false);
      int32_t next = 0;
      for (const auto& [ordinal, place] : visible.device_of) {
        ASSERT_EQ(ordinal, next++) << mask;
        ASSERT_LT(place, devices->size()) << mask;
        ASSERT_FALSE(seen[place]) << mask;
        seen[place] = true;
      }
    }
  }
}

}  // namespace
}  // namespace xplane_time::power
