// Makes a log with a day of power readings, and measures how long its summary takes.
//
//   power_log make p.jsonl.gz [HOURS [GPUS]]    # 24 h x 20 Hz x 8 GPUs: 14 million readings
//   power_log read p.jsonl.gz                   # the reference: inflates it and visits each byte
//   power_log summarize p.jsonl.gz
//
// A file whose name does not end in .gz is not compressed. Each command prints the elapsed seconds,
// the seconds of CPU time (which are comparable on a shared machine), and the peak of its memory.
#include <sys/resource.h>
#include <zlib.h>

#include <chrono>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "xplane_time/power.h"

namespace {

constexpr int64_t kPeriodNs = 50'000'000, kSecondNs = 1'000'000'000;

// Writes plain text or gzip, depending on the name.
class Out {
 public:
  explicit Out(const std::string& path)
      : file_(gzopen(path.c_str(), path.ends_with(".gz") ? "wb6" : "wbT")) {
    if (file_ == nullptr) std::abort();
  }
  ~Out() { gzclose(file_); }
  Out(const Out&) = delete;
  Out& operator=(const Out&) = delete;
  void Write(std::string_view text) {
    if (gzwrite(file_, text.data(), static_cast<unsigned>(text.size())) == 0) std::abort();
  }

 private:
  gzFile file_;
};

std::string Header(int64_t gpus) {
  std::string channels;
  for (int64_t i = 0; i < gpus; ++i) {
    absl::StrAppend(&channels, i > 0 ? "," : "", "{\"source\":\"nvml\",\"device\":\"GPU-", i,
                    "\",\"domain\":\"gpu\",\"quantity\":\"power_mw\",\"kind\":\"instant\","
                    "\"in_total\":true,\"prior_period_ns\":100000000}");
  }
  return absl::StrCat(
      "{\"schema\":\"xplane-time.power-log.v1\",\"t\":1000000000,\"periods_ns\":"
      "{\"nvml\":50000000},\"channels\":[",
      channels, "]}\n");
}

void Make(const std::string& path, int64_t hours, int64_t gpus) {
  Out out(path);
  out.Write(Header(gpus));
  std::mt19937_64 random(20);
  std::vector<int64_t> power_mw(static_cast<size_t>(gpus), 300'000);
  const int64_t end_ns = hours * 3600 * kSecondNs;
  std::string line;
  for (int64_t t_ns = kSecondNs; t_ns < end_ns + kSecondNs; t_ns += kPeriodNs) {
    const auto below = [&](uint64_t most) { return static_cast<int64_t>(random() % most); };
    line = absl::StrCat("{\"t\":", t_ns + below(100'000), ",\"s\":0,\"r\":[");
    int64_t start_ns = 0;
    for (int64_t i = 0; i < gpus; ++i) {
      int64_t& mw = power_mw[static_cast<size_t>(i)];
      // Occasional steps, and noise of the sensor.
      if (below(200) == 0) mw = 80'000 + below(600'000);
      const int64_t duration_ns = 700'000 + below(300'000);
      absl::StrAppend(&line, i > 0 ? "," : "", "[", i, ",", start_ns, ",", duration_ns, ",",
                      mw + below(8'000), "]");
      start_ns += duration_ns;
    }
    line.append("]}\n");
    out.Write(line);
  }
  out.Write(absl::StrCat("{\"t\":", end_ns + kSecondNs,
                         ",\"end\":{\"reason\":\"stopped\",\"readers\":[],\"dropped\":0}}\n"));
}

void Read(const std::string& path) {
  gzFile file = gzopen(path.c_str(), "rb");
  if (file == nullptr) std::abort();
  gzbuffer(file, 1 << 18);
  std::vector<char> buffer(1 << 18);
  uint64_t bytes = 0, lines = 0;
  for (;;) {
    const int got = gzread(file, buffer.data(), static_cast<unsigned>(buffer.size()));
    if (got <= 0) break;
    bytes += static_cast<uint64_t>(got);
    for (int i = 0; i < got; ++i) lines += buffer[static_cast<size_t>(i)] == '\n' ? 1 : 0;
  }
  gzclose(file);
  std::printf("%" PRIu64 " bytes, %" PRIu64 " lines\n", bytes, lines);
}

void Summarize(const std::string& path) {
  const auto summary = xplane_time::SummarizePowerLog(path, {});
  if (!summary.ok()) {
    std::fprintf(stderr, "%s\n", summary.status().ToString().c_str());
    std::exit(1);
  }
  uint64_t readings = 0;
  for (const auto& energy : summary->windows.at(0).energies) readings += energy.readings;
  std::printf("%" PRIu64 " readings, %.3f J\n", readings,
              summary->windows[0].total.energy_j.value_or(0));
}

int64_t Number(int argc, char** argv, int at, int64_t otherwise) {
  return argc > at ? std::strtoll(argv[at], nullptr, 10) : otherwise;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 2 ? argv[1] : "", path = argc > 2 ? argv[2] : "";
  const auto start = std::chrono::steady_clock::now();
  if (what == "make") {
    Make(path, Number(argc, argv, 3, 24), Number(argc, argv, 4, 8));
  } else if (what == "read") {
    Read(path);
  } else if (what == "summarize") {
    Summarize(path);
  } else {
    std::fprintf(stderr, "usage: power_log make|read|summarize LOG [HOURS [GPUS]]\n");
    return 2;
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  const auto cpu_s = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  std::printf("%s: %.3f s, %.3f s of a core, peak %.1f MB\n", what.c_str(), seconds.count(),
              cpu_s(usage.ru_utime) + cpu_s(usage.ru_stime),
              static_cast<double>(usage.ru_maxrss) / 1000);
  return 0;
}
