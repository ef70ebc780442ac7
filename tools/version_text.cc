#include "version_text.h"

#include <absl/base/config.h>
#include <google/protobuf/stubs/common.h>
#include <zlib.h>

#include "absl/strings/str_cat.h"
#include "xplane_time/version.h"

namespace xplane_time::tools {

std::string VersionText() {
  constexpr int kProtobuf = GOOGLE_PROTOBUF_VERSION;
  return absl::StrCat("xplane-time ", XPLANE_TIME_VERSION_STRING, "\nreaders: wire, protobuf ",
                      kProtobuf / 1000000, ".", kProtobuf / 1000 % 1000, ".", kProtobuf % 1000,
                      "\ninputs: XSpace, gzip (zlib ", ZLIB_VERSION, ")\nabseil ",
                      ABSL_LTS_RELEASE_VERSION, ", re2, compiled by ", __VERSION__, "\n");
}

}  // namespace xplane_time::tools
