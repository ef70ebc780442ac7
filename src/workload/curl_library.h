// libcurl, loaded when a model server is first asked: it and what it stands on would double the
// time that every command takes to start.
//
//   ASSIGN_OR_RETURN(const CurlLibrary* curl, LoadCurl());
//   CURL* const easy = curl->easy_init();
#pragma once

#define CURL_DISABLE_TYPECHECK  // of macros, which have the names of functions
#include <curl/curl.h>

#include "absl/status/statusor.h"

namespace xplane_time {

// The functions that are used, by their names without "curl_".
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

// The same for all threads; it stays. Errors: Unavailable (it is not there, or too old).
absl::StatusOr<const CurlLibrary*> LoadCurl();

}  // namespace xplane_time
