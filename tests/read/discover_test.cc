#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "tests/read/says.h"
#include "tests/read/temp_dir.h"
#include "xplane_time/read.h"

namespace xplane_time::testing {
namespace {

using Arguments = std::vector<std::string>;

// "CAPTURE:PATH" of each input, with PATH relative to the directory.
Arguments Found(const TempDir& dir, const Arguments& arguments, const FindOptions& options = {}) {
  auto inputs = FindInputs(arguments, options);
  if (!inputs.ok()) return {std::string(inputs.status().message())};
  Arguments found;
  for (const Input& input : *inputs) {
    std::string path = input.path;
    if (path.starts_with(dir.path())) path = path.substr(dir.path().size() + 1);
    found.push_back(std::to_string(input.capture) + ":" + path);
  }
  return found;
}

absl::Status Refused(const Arguments& arguments, const FindOptions& options = {}) {
  return FindInputs(arguments, options).status();
}

TEST(FindInputs, FilesAreThemselves) {
  const TempDir dir;
  const std::string a = dir.Write("a.xplane.pb", "x"), b = dir.Write("odd name", "x");
  EXPECT_EQ(Found(dir, {a, b, "-"}), (Arguments{"0:a.xplane.pb", "1:odd name", "2:-"}));
}

TEST(FindInputs, ARunDirectoryGivesItsHosts) {
  const TempDir dir;
  for (const char* name : {"run/b.xplane.pb", "run/a.xplane.pb", "run/c.xplane.pb.gz",
                           "run/d.xspace.pb", "run/a.trace.json.gz", "run/notes.txt"}) {
    dir.Write(name, "x");
  }
  EXPECT_EQ(Found(dir, {dir.Path("run"), dir.Path("run/a.xplane.pb")}),
            (Arguments{"0:run/a.xplane.pb", "0:run/b.xplane.pb", "0:run/c.xplane.pb.gz",
                       "0:run/d.xspace.pb", "1:run/a.xplane.pb"}));
}

TEST(FindInputs, ALogDirectoryGivesItsLatestRun) {
  const TempDir dir;
  const std::string log = "log/plugins/profile/";
  for (const char* run : {"2024_02_01_00_00_00", "2024_10_01_00_00_00", "2023_12_31_23_59_59"}) {
    dir.Write(log + run + "/h.xplane.pb", "x");
  }
  dir.Write(log + "2025_01_01_00_00_00/unfinished.tmp", "x");
  const Arguments latest = {"0:log/plugins/profile/2024_10_01_00_00_00/h.xplane.pb"};
  for (const char* place : {"log", "log/plugins", "log/plugins/profile"}) {
    EXPECT_EQ(Found(dir, {dir.Path(place)}), latest) << place;
  }
  EXPECT_EQ(Found(dir, {dir.Path("log")}, {.run = "2023_12_31_23_59_59"}),
            (Arguments{"0:log/plugins/profile/2023_12_31_23_59_59/h.xplane.pb"}));
  const absl::Status unknown = Refused({dir.Path("log")}, {.run = "2020"});
  EXPECT_TRUE(absl::IsNotFound(unknown));
  EXPECT_TRUE(Says(unknown, "no run 2020")) << unknown;
  EXPECT_TRUE(Says(unknown, "2024_02_01_00_00_00")) << unknown;
}

TEST(FindInputs, NotFound) {
  const TempDir dir;
  dir.Write("empty/readme", "x");
  for (const std::string& argument :
       {dir.Path("absent"), dir.Path("empty/readme/below"), dir.Path("empty"), std::string()}) {
    const absl::Status status = Refused({argument});
    EXPECT_TRUE(absl::IsNotFound(status)) << argument << ": " << status;
    EXPECT_TRUE(Begins(status, argument)) << status;
  }
}

TEST(FindInputs, RiegeliIsRefused) {
  const TempDir dir;
  const std::string file = dir.Write("run/h.xplane.riegeli", "x");
  dir.Write("log/plugins/profile/1/h.xplane.riegeli", "x");
  for (const std::string& argument : {file, dir.Path("run"), dir.Path("log")}) {
    const absl::Status status = Refused({argument});
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
    EXPECT_TRUE(Says(status, "riegeli")) << status;
  }
  dir.Write("run/h.xplane.pb", "x");
  EXPECT_EQ(Found(dir, {dir.Path("run")}), (Arguments{"0:run/h.xplane.pb"}));
}

TEST(FindInputs, RunNeedsALogDirectory) {
  const TempDir dir;
  const std::string file = dir.Write("a.xplane.pb", "x");
  EXPECT_TRUE(absl::IsInvalidArgument(Refused({file}, {.run = "1"})));
  EXPECT_TRUE(absl::IsInvalidArgument(Refused({"-"}, {.run = "1"})));
}

TEST(FindInputs, NoArgumentsGiveNothing) {
  const TempDir dir;
  EXPECT_EQ(Found(dir, {}), Arguments{});
}

TEST(FindInputs, ADirectoryThatMayNotBeListed) {
  if (geteuid() == 0) GTEST_SKIP() << "root may list everything";
  const TempDir dir;
  dir.Write("run/h.xplane.pb", "x");
  ASSERT_EQ(chmod(dir.Path("run").c_str(), 0), 0);
  EXPECT_TRUE(absl::IsPermissionDenied(Refused({dir.Path("run")})));
  ASSERT_EQ(chmod(dir.Path("run").c_str(), S_IRWXU), 0);
}

}  // namespace
}  // namespace xplane_time::testing
