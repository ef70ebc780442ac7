// Calls the functions of SHA-256 directly. EVP would link all algorithms of libcrypto, and
// relocating their tables at every start of the program takes as long as reading a small trace.
#define OPENSSL_SUPPRESS_DEPRECATED

#include "io/sha256.h"

#include <openssl/sha.h>

#include "absl/strings/escaping.h"

namespace xplane_time::io {

std::string Sha256Hex(std::string_view bytes) {
  Sha256 sha256;
  sha256.Add(bytes);
  return sha256.Hex();
}

Sha256::Sha256() : state_(std::make_unique<SHA256state_st>()) { SHA256_Init(state_.get()); }
Sha256::~Sha256() = default;

void Sha256::Add(std::string_view bytes) {
  SHA256_Update(state_.get(), bytes.data(), bytes.size());
}

std::string Sha256::Hex() {
  std::string digest(SHA256_DIGEST_LENGTH, '\0');
  SHA256_Final(reinterpret_cast<unsigned char*>(digest.data()), state_.get());
  return absl::BytesToHexString(digest);
}

}  // namespace xplane_time::io
