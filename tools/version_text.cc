#include "version_text.h"

#include <absl/base/config.h>
#include <zlib.h>

#include <string>
#if defined(XPLANE_TIME_REFERENCE_READER)
#include <google/protobuf/stubs/common.h>
#endif

#include "absl/strings/str_cat.h"
#include "xplane_time/version.h"

namespace xplane_time::tools {

namespace {

std::string Readers() {
#if defined(XPLANE_TIME_REFERENCE_READER)
  constexpr int kProtobuf = GOOGLE_PROTOBUF_VERSION;
  return absl::StrCat("wire, protobuf ", kProtobuf / 1000000, ".", kProtobuf / 1000 % 1000, ".",
                      kProtobuf % 1000);
#else
  return "wire";
#endif
}

}  // namespace

std::string VersionText() {
  return absl::StrCat("xplane-time ", XPLANE_TIME_VERSION_STRING, "\nreaders: ", Readers(),
                      "\ninputs: XSpace, gzip (zlib ", ZLIB_VERSION, ")\nabseil ",
                      ABSL_LTS_RELEASE_VERSION, ", re2, compiled by ", __VERSION__, "\n");
}

}  // namespace xplane_time::tools
