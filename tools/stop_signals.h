// Signals that stop us. What was ignored when we began, by nohup or a script's `&`, stays so, for
// us and for what we start.
#pragma once

#include <array>
#include <csignal>

namespace xplane_time::tools {

inline constexpr std::array kStopSignals = {SIGINT, SIGTERM, SIGHUP};

inline bool IsIgnored(int signal) {
  struct sigaction now = {};
  return sigaction(signal, nullptr, &now) == 0 && (now.sa_flags & SA_SIGINFO) == 0 &&
         now.sa_handler == SIG_IGN;
}

// System calls go on after it.
inline void OnStopSignals(void (*handler)(int)) {
  for (const int signal : kStopSignals) {
    if (!IsIgnored(signal)) std::signal(signal, handler);
  }
}

inline volatile std::sig_atomic_t stop_signal = 0;

// From now on they end nothing: IsStopped says that one came.
inline void RememberStopSignals() {
  OnStopSignals([](int signal) { stop_signal = signal; });
}
inline bool IsStopped() { return stop_signal != 0; }

}  // namespace xplane_time::tools
