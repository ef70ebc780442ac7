#include "io/sha256.h"

#include <openssl/sha.h>

#include "absl/strings/escaping.h"

namespace xplane_time::io {

std::string Sha256Hex(std::string_view bytes) {
  std::string digest(SHA256_DIGEST_LENGTH, '\0');
  SHA256(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(),
         reinterpret_cast<unsigned char*>(digest.data()));
  return absl::BytesToHexString(digest);
}

}  // namespace xplane_time::io
