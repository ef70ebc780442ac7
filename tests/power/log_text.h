// LogText builds power logs for tests, line by line.
#pragma once

#include <cstdint>
#include <string>

namespace xplane_time::testing {

inline std::string ChannelText(const std::string& device, const std::string& quantity,
                               const std::string& kind, const std::string& more = "") {
  return R"({"source":"nvml","device":")" + device + R"(","domain":"gpu","quantity":")" + quantity +
         R"(","kind":")" + kind + R"(","in_total":true)" + more + "}";
}

class LogText {
 public:
  static constexpr int64_t kStartNs = 1'000'000'000'000;
  static constexpr int64_t kPeriodNs = 50'000'000;

  // `channels`: results of ChannelText, separated by commas.
  explicit LogText(const std::string& channels) {
    text_ = R"({"schema":"xplane-time.power-log.v1","t":)" + std::to_string(kStartNs) +
            R"(,"clocks":{"monotonic_ns":1000000000000,"realtime_ns":1700000000000000000,)"
            R"("boottime_ns":2000000000000},"machine":{"host":"node1"},"command":"train",)"
            R"("periods_ns":{"nvml":50000000},"devices":[{"id":"GPU-1","name":"A card",)"
            R"("source":"nvml","index":0,"shared":true}],"channels":[)" +
            channels +
            R"(],"absent":[{"source":"rapl","what":"package-0",)"
            R"("reason":"permission_denied","message":"energy_uj","fix":"chmod"}]})" +
            "\n";
  }
  static int64_t At(double seconds) { return kStartNs + static_cast<int64_t>(seconds * 1e9); }
  // Adds a pass with one reading at exactly this time.
  LogText& Read(double seconds, int channel, const std::string& value, double took_s = 0) {
    return Line(R"({"t":)" + std::to_string(At(seconds)) + R"(,"s":0,"r":[[)" +
                std::to_string(channel) + ",0," + std::to_string(At(took_s) - kStartNs) + "," +
                value + "]]}");
  }
  LogText& Mark(double seconds, const std::string& which, const std::string& window) {
    return Line(R"({"t":)" + std::to_string(At(seconds)) + ",\"" + which + "\":\"" + window +
                "\"}");
  }
  // Adds a line of clocks: shifts of wall and boot clock against the monotonic clock since the
  // header.
  LogText& Clocks(double seconds, double wall_s, double boot_s) {
    const auto ns = [](double s) { return static_cast<int64_t>(s * 1e9); };
    return Line(R"({"t":)" + std::to_string(At(seconds)) + R"(,"clocks":{"monotonic_ns":)" +
                std::to_string(At(seconds)) + R"(,"realtime_ns":)" +
                std::to_string(1'700'000'000'000'000'000 + ns(seconds + wall_s)) +
                R"(,"boottime_ns":)" + std::to_string(2'000'000'000'000 + ns(seconds + boot_s)) +
                "}}");
  }
  LogText& End(double seconds) {
    return Line(R"({"t":)" + std::to_string(At(seconds)) +
                R"(,"end":{"reason":"stopped","readers":[{"source":"nvml","reads":9,)"
                R"("missed":2,"own_cpu_ns":77,"hung":false}],"dropped":0}})");
  }
  LogText& Line(const std::string& line) {
    text_ += line + "\n";
    return *this;
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

}  // namespace xplane_time::testing
