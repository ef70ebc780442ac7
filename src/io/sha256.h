// SHA-256 (FIPS 180-4), by libcrypto, piece by piece.
//
//   Sha256 hash;
//   hash.Update("abc");
//   hash.Hex();   // "ba7816bf...15ad", 64 digits; call it once
#pragma once

#include <memory>
#include <string>
#include <string_view>

struct evp_md_ctx_st;

namespace xplane_time::io {

class Sha256 {
 public:
  Sha256();  // throws std::bad_alloc where libcrypto has none
  void Update(std::string_view bytes);
  std::string Hex();

 private:
  std::unique_ptr<evp_md_ctx_st, void (*)(evp_md_ctx_st*)> context_;
};

}  // namespace xplane_time::io
