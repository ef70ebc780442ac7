// SHA-256 (FIPS 180-4), by libcrypto, piece by piece.
//
//   Sha256 hash;
//   hash.Update("abc");
//   hash.Hex();   // "ba7816bf...15ad", 64 digits; call it once
#ifndef XPLANE_TIME_SRC_POWER_SHA256_H_
#define XPLANE_TIME_SRC_POWER_SHA256_H_

#include <memory>
#include <string>
#include <string_view>

namespace xplane_time::power {

class Sha256 {
 public:
  Sha256();  // throws std::bad_alloc where libcrypto has none
  ~Sha256();
  Sha256(Sha256&&) noexcept;
  Sha256& operator=(Sha256&&) noexcept;

  void Update(std::string_view bytes);
  std::string Hex();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace xplane_time::power

#endif  // XPLANE_TIME_SRC_POWER_SHA256_H_
