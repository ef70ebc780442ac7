#include "workload/curl_library.h"

#include <dlfcn.h>

#include "status.h"

namespace xplane_time {
namespace {

constexpr char kName[] = "libcurl.so.4";

absl::StatusOr<CurlLibrary> Load() {
  void* const library = dlopen(kName, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* const error = dlerror();
    return Unavailable("HTTP clients require libcurl: ", error == nullptr ? kName : error,
                       "; install it (Debian: apt install libcurl4)");
  }
  CurlLibrary curl;
#define XPLANE_TIME_CURL_FUNCTION(name)                                                         \
  curl.name = reinterpret_cast<decltype(curl.name)>(dlsym(library, "curl_" #name));             \
  if (curl.name == nullptr) {                                                                   \
    return Unavailable(kName,                                                                   \
                       ": missing curl_" #name "; HTTP clients require libcurl 7.85 or newer"); \
  }
  XPLANE_TIME_CURL_FUNCTIONS(XPLANE_TIME_CURL_FUNCTION)
#undef XPLANE_TIME_CURL_FUNCTION
  const CURLcode code = curl.global_init(CURL_GLOBAL_DEFAULT);
  if (code != CURLE_OK) return Unavailable(kName, ": ", curl.easy_strerror(code));
  return curl;
}

}  // namespace

absl::StatusOr<const CurlLibrary*> LoadCurl() {
  static const absl::StatusOr<CurlLibrary> loaded = Load();
  RETURN_IF_ERROR(loaded.status());
  return &*loaded;
}

}  // namespace xplane_time
