// SHA-256 (FIPS 180-4), by libcrypto.
//
//   Sha256Hex("abc");   // "ba7816bf...15ad", 64 digits
#pragma once

#include <string>
#include <string_view>

namespace xplane_time::io {

std::string Sha256Hex(std::string_view bytes);

}  // namespace xplane_time::io
