// SHA-256 (FIPS 180-4), by libcrypto.
//
//   Sha256Hex("abc");   // "ba7816bf...15ad", 64 digits
#pragma once

#include <memory>
#include <string>
#include <string_view>

struct SHA256state_st;

namespace xplane_time::io {

std::string Sha256Hex(std::string_view bytes);

// Hashes bytes that arrive in pieces.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  void Add(std::string_view bytes);
  std::string Hex();  // hash of all bytes; call it once, at the end

 private:
  const std::unique_ptr<SHA256state_st> state_;
};

}  // namespace xplane_time::io
