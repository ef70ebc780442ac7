// libcurl, loaded when a model server is first asked: linking it and its dependencies would double
// the start-up time of every command.
//
//   ASSIGN_OR_RETURN(const CurlLibrary* curl, LoadCurl());
//   CURL* const easy = curl->easy_init();
#pragma once

#define CURL_DISABLE_TYPECHECK  // its macros have the names of functions
#include <curl/curl.h>

#include "absl/status/statusor.h"

namespace xplane_time {

// The functions in use, by their names without "curl_".
#define XPLANE_TIME_CURL_FUNCTIONS(Each)                                                       \
  Each(easy_init) Each(easy_cleanup) Each(easy_setopt) Each(easy_getinfo) Each(easy_strerror)  \
      Each(easy_reset) Each(multi_init) Each(multi_cleanup) Each(multi_add_handle)             \
          Each(multi_remove_handle) Each(multi_perform) Each(multi_poll) Each(multi_info_read) \
              Each(multi_strerror) Each(slist_append) Each(slist_free_all) Each(url)           \
                  Each(url_cleanup) Each(url_set) Each(url_get) Each(url_strerror) Each(free)  \
                      Each(global_init)

struct CurlLibrary {
#define XPLANE_TIME_CURL_FUNCTION(name) decltype(&curl_##name) name = nullptr;
  XPLANE_TIME_CURL_FUNCTIONS(XPLANE_TIME_CURL_FUNCTION)
#undef XPLANE_TIME_CURL_FUNCTION
};

// The same object for all threads; it is never unloaded. Errors: Unavailable (missing or too old).
absl::StatusOr<const CurlLibrary*> LoadCurl();

}  // namespace xplane_time
