// A libnvidia-ml.so.1 that answers from a script, for tests of the reader and of the real
// binary (--nvml-library .../libfake_nvml.so). FAKE_NVML_SCRIPT names the script, JSON:
//
//   {"driver": "550.54.15",
//    "reload_after": 40,        // after 40 device calls, calls return UNINITIALIZED until
//                               // the next nvmlInit; growing values start at 0 again
//    "calls": {"nvmlInit": ANSWER, "nvmlDeviceGetCount": ANSWER},
//    "devices": [{
//      "name": "NVIDIA H100 80GB HBM3", "uuid": "GPU-...", "bus": 1,
//      "architecture": 9, "capability": [9, 0],
//      "mig": ["MIG-..."],      // absent: not split; []: split, without instances
//      "virtualization": 0,     // 2: a vGPU
//      "processes": [1234],
//      "lost_after": 100,       // after 100 device calls, calls return GPU_IS_LOST
//      "field_age_us": 2000,    // age of values of fields by their timestamp; null: none
//      "samples": {"period_ms": 20, "clock": "boottime",    // or realtime, none
//                  "again": false},                         // true: repeats earlier samples
//      "calls": {"nvmlDeviceGetPowerUsage": ANSWER, ...}}]}
//
// ANSWER is a number, one step, or an array of steps in order. The last step applies to all later
// calls:
//   {"value": 300000,           // [used, total] or [gpu, memory] for calls with two results
//    "per_s": 300000,           // grows with the time since nvmlInit; requires "value"
//    "per_call": 10,            // grows with each call
//    "wrap": 4294967296,        // modulo
//    "error": 15,               // an nvmlReturn_t instead of a value; for a field or a metric,
//                               // -1: the driver does not change the output
//    "latency_s": 0.5,          // duration of the call; 3600 hangs
//    "calls": 3,                // number of calls to which the step applies
//    "until_s": 2.0}            // or time of its end, after the first nvmlInit
//
// Names of calls have no version suffix. nvmlDeviceGetClockInfo:1 contains the kind of the clock,
// and nvmlDeviceGetFieldValues:186:0 the field and the scope. nvmlDeviceGetFieldValues alone is the
// whole call. The defaults of a script are a healthy H100 at 300 W. Without a script, there is one
// such device. An answer for an unknown call has no effect. If a script cannot be read, the process
// ends with status 70 and a message on stderr, because a test with it would be meaningless.
//
// GPM: nvmlGpmQueryDeviceSupport is 1 or 0 (default: whether the architecture supports it).
// nvmlGpmSampleAlloc is a call of the whole library. nvmlGpmMetricsGet:2 contains the number of the
// metric, and its values are in percent. nvmlGpmMetricsGet alone is the whole call. Metrics require
// two samples of one device that were filled over 100 ms apart since the last nvmlInit. Otherwise,
// the call returns INVALID_ARGUMENT.
//
// The settings of devices are in the file FAKE_NVML_SETTINGS, so other processes see them. Each
// line is one setting: "GPU-... clock 1410", "GPU-... clock reset", "GPU-... limit_mw 400000". The
// defaults are 1980 MHz and 700 W. Clocks from 210 to 1980 MHz in steps of 15 and limits from 200
// to 700 W are accepted. Without the file, changes are refused (NVML_ERROR_NO_PERMISSION).
//
// With FAKE_NVML_OLD, the library lacks the functions that were added after driver 390: fields, the
// energy counter, GPM, MIG, architectures, locked clocks, and later versions of functions.
#include <time.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>
#include <iterator>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "power/nvml_api.h"

namespace {

using namespace xplane_time::power;  // NOLINT: this file implements the library
using Json = nlohmann::json;

struct Step {
  std::vector<double> values;
  double per_s = 0, per_call = 0, wrap = 0, latency_s = 0;
  NvmlReturn error = kNvmlSuccess;
  std::optional<uint64_t> calls;
  std::optional<double> until_s;
};

struct Answer {
  std::vector<Step> steps;
  uint64_t calls = 0;
};

struct Answered {
  NvmlReturn result = kNvmlSuccess;
  std::vector<double> values = {};
};

struct Device {
  std::string name, uuid;
  unsigned bus = 0, architecture = 0;
  int major = 0, minor = 0, virtualization = 0;
  bool split = false;
  std::vector<std::string> instances;
  std::vector<unsigned> processes;
  std::optional<uint64_t> lost_after;
  std::optional<int64_t> field_age_us;
  std::optional<int64_t> sample_period_us;
  std::string sample_clock;
  bool samples_again = false;
  std::map<std::string, Answer> answers;
  uint64_t calls = 0;
};

struct Fake {
  Fake() = default;
  ~Fake() { const std::lock_guard after_all_calls(mutex); }
  Fake(const Fake&) = delete;
  Fake& operator=(const Fake&) = delete;

  std::mutex mutex;
  std::string script, driver;
  std::vector<Device> devices;
  std::map<std::string, Answer> answers;
  std::optional<uint64_t> reload_after;
  uint64_t device_calls = 0, generation = 0, users = 0;
  bool loaded = false, initialized = false, restarted = false;
  double first_init_s = 0, last_init_s = 0;
};

Fake& fake() {
  static Fake instance;  // destroyed with the library, so each dlopen starts with a new state
  return instance;
}

double NowS(clockid_t clock = CLOCK_MONOTONIC) {
  timespec now = {};
  clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

Step StepOf(const Json& json) {
  Step step;
  if (json.is_number()) {
    step.values = {json.get<double>()};
    return step;
  }
  if (json.contains("value")) {
    const Json& value = json["value"];
    step.values = value.is_array() ? value.get<std::vector<double>>()
                                   : std::vector<double>{value.get<double>()};
  }
  step.per_s = json.value("per_s", 0.0);
  step.per_call = json.value("per_call", 0.0);
  if (step.values.empty() && (step.per_s != 0 || step.per_call != 0)) {
    throw std::invalid_argument("per_s and per_call need a value to grow from: " + json.dump());
  }
  step.wrap = json.value("wrap", 0.0);
  step.latency_s = json.value("latency_s", 0.0);
  step.error = json.value("error", kNvmlSuccess);
  if (json.contains("calls")) step.calls = json["calls"].get<uint64_t>();
  if (json.contains("until_s")) step.until_s = json["until_s"].get<double>();
  return step;
}

Answer AnswerOf(const Json& json) {
  Answer answer;
  if (!json.is_array()) {
    answer.steps = {StepOf(json)};
  } else {
    for (const Json& step : json) answer.steps.push_back(StepOf(step));
  }
  return answer;
}

std::map<std::string, Answer> AnswersOf(const Json& json) {
  std::map<std::string, Answer> answers;
  for (const auto& [name, answer] : json.items()) answers[name] = AnswerOf(answer);
  return answers;
}

// The answers of a healthy H100, which a script can replace.
std::map<std::string, Answer> HealthyAnswers() {
  return AnswersOf(Json::parse(R"({
    "nvmlDeviceGetPowerUsage": 300000,
    "nvmlDeviceGetFieldValues:185:0": 300000,
    "nvmlDeviceGetFieldValues:186:0": 300000,
    "nvmlDeviceGetSamples": 300000,
    "nvmlDeviceGetTotalEnergyConsumption": {"value": 1000000, "per_s": 300000},
    "nvmlDeviceGetClockInfo:2": 2619,
    "nvmlDeviceGetTemperature": 45,
    "nvmlDeviceGetCurrentClocksEventReasons": 0,
    "nvmlDeviceGetPerformanceState": 0,
    "nvmlDeviceGetEnforcedPowerLimit": 700000,
    "nvmlDeviceGetMemoryInfo": {"value": [1073741824, 85899345920]},
    "nvmlDeviceGetUtilizationRates": {"value": [100, 40]},
    "nvmlGpmSampleGet": 0,
    "nvmlGpmMetricsGet:2": 62.5,
    "nvmlGpmMetricsGet:5": 31.25,
    "nvmlGpmMetricsGet:10": 48})"));
}

Device DeviceOf(const Json& json, size_t index) {
  Device device;
  const std::string digit = std::to_string(index);
  device.name = json.value("name", "NVIDIA H100 80GB HBM3");
  device.uuid = json.value("uuid", "GPU-" + digit + "0000000-0000-0000-0000-000000000000");
  device.bus = json.value("bus", static_cast<unsigned>(index + 1));
  device.architecture = json.value("architecture", kNvmlHopper);
  const auto capability = json.value("capability", std::vector<int>{9, 0});
  device.major = capability.at(0);
  device.minor = capability.at(1);
  device.virtualization = json.value("virtualization", 0);
  device.split = json.contains("mig");
  device.instances = json.value("mig", std::vector<std::string>{});
  device.processes = json.value("processes", std::vector<unsigned>{});
  if (json.contains("lost_after")) device.lost_after = json["lost_after"].get<uint64_t>();
  if (!json.contains("field_age_us")) {
    device.field_age_us = 2000;
  } else if (!json["field_age_us"].is_null()) {
    device.field_age_us = json["field_age_us"].get<int64_t>();
  }
  if (json.contains("samples")) {
    device.sample_period_us = static_cast<int64_t>(json["samples"].value("period_ms", 20.0) * 1000);
    device.sample_clock = json["samples"].value("clock", "boottime");
    device.samples_again = json["samples"].value("again", false);
  }
  device.answers = HealthyAnswers();
  for (auto& [name, answer] : AnswersOf(json.value("calls", Json::object()))) {
    device.answers[name] = std::move(answer);
  }
  return device;
}

// Reads the current script. If it was read before, it keeps its state.
void Load() {
  const char* path = std::getenv("FAKE_NVML_SCRIPT");
  std::string text = R"({"devices": [{}]})";
  if (path != nullptr) {
    std::ifstream file(path);
    text.assign(std::istreambuf_iterator<char>(file), {});
  }
  Fake& state = fake();
  if (state.loaded && state.script == text) return;
  try {
    const Json json = Json::parse(text, nullptr, true, /*ignore_comments=*/true);
    state.driver = json.value("driver", "550.54.15");
    state.answers = AnswersOf(json.value("calls", Json::object()));
    state.reload_after.reset();
    if (json.contains("reload_after")) state.reload_after = json["reload_after"].get<uint64_t>();
    state.devices.clear();
    for (const Json& device : json.value("devices", Json::array())) {
      state.devices.push_back(DeviceOf(device, state.devices.size()));
    }
  } catch (const std::exception& error) {
    std::cerr << "fake_nvml: " << (path == nullptr ? "" : path) << ": " << error.what() << "\n";
    std::_Exit(70);
  }
  state.script = std::move(text);
  state.loaded = true;
  state.restarted = false;
  state.device_calls = 0;
  state.first_init_s = 0;
}

const Step* StepNow(const Answer& answer, uint64_t n) {
  const double now_s = NowS() - fake().first_init_s;
  for (const Step& step : answer.steps) {
    if (&step == &answer.steps.back()) return &step;
    if (step.calls) {
      if (n < *step.calls) return &step;
      n -= *step.calls;
    } else if (!step.until_s || now_s < *step.until_s) {
      return &step;
    }
  }
  return nullptr;
}

// The current answer of the call. `lock` is released during the latency of the call.
Answered Ask(std::map<std::string, Answer>& answers, const std::string& name,
             std::unique_lock<std::mutex>& lock) {
  const auto at = answers.find(name);
  if (at == answers.end()) return {kNvmlNotSupported};
  const uint64_t n = at->second.calls++;
  const Step* step = StepNow(at->second, n);
  if (step == nullptr) return {kNvmlNotSupported};
  Answered answered = {step->error, step->values};
  const bool grows = step->per_s != 0 || step->per_call != 0;
  for (double& value : answered.values) {
    if (grows && fake().restarted) value = 0;
    value += step->per_s * (NowS() - fake().last_init_s) + step->per_call * static_cast<double>(n);
    if (step->wrap > 0) value = std::fmod(value, step->wrap);
  }
  if (step->latency_s > 0) {
    const auto latency = std::chrono::duration<double>(step->latency_s);
    lock.unlock();
    std::this_thread::sleep_for(latency);
    lock.lock();
  }
  return answered;
}

// Handles from before a reload are invalid.
NvmlDevice HandleOf(size_t index, size_t instance) {
  const uintptr_t number = (fake().generation << 32) | (instance << 16) | (index + 1);
  return reinterpret_cast<NvmlDevice>(number);  // NOLINT: opaque, never dereferenced
}

struct Target {
  Device* device = nullptr;
  size_t index = 0, instance = 0;  // instance 0: the whole GPU
};

Target TargetOf(NvmlDevice handle) {
  const auto number = reinterpret_cast<uintptr_t>(handle);
  const size_t index = (number & 0xffff) - 1;
  if (number >> 32 != fake().generation || index >= fake().devices.size()) return {};
  return {&fake().devices[index], index, (number >> 16) & 0xffff};
}

// Counts a call of the device, and returns the errors that are common to all calls.
NvmlReturn Enter(NvmlDevice handle, Target* target) {
  Fake& state = fake();
  if (!state.initialized) return kNvmlUninitialized;
  if (state.reload_after && state.device_calls++ >= *state.reload_after) {
    state.initialized = false;
    state.reload_after.reset();
    state.restarted = true;
    return kNvmlUninitialized;
  }
  *target = TargetOf(handle);
  if (target->device == nullptr) return kNvmlInvalidArgument;
  Device& device = *target->device;
  if (device.lost_after && device.calls >= *device.lost_after) return kNvmlGpuIsLost;
  ++device.calls;
  return kNvmlSuccess;
}

Answered AskDevice(NvmlDevice handle, const std::string& name) {
  std::unique_lock lock(fake().mutex);
  Target target;
  const NvmlReturn result = Enter(handle, &target);
  if (result != kNvmlSuccess) return {result};
  return Ask(target.device->answers, name, lock);
}

template <typename Number>
NvmlReturn Fill(NvmlDevice handle, const std::string& name, Number* value) {
  const Answered answered = AskDevice(handle, name);
  if (answered.result == kNvmlSuccess && !answered.values.empty()) {
    *value = static_cast<Number>(answered.values[0]);
  }
  return answered.result;
}

// Passes a text or number of the device to the caller, unless `name` has a scripted error.
template <typename Use>
NvmlReturn OfDevice(NvmlDevice handle, const std::string& name, Use use) {
  std::unique_lock lock(fake().mutex);
  Target target;
  const NvmlReturn result = Enter(handle, &target);
  if (result != kNvmlSuccess) return result;
  if (target.device->answers.count(name) != 0) {
    const Answered answered = Ask(target.device->answers, name, lock);
    if (answered.result != kNvmlSuccess) return answered.result;
  }
  return use(*target.device, target);
}

NvmlReturn CopyText(const std::string& text, char* to, unsigned size) {
  if (text.size() + 1 > size) return kNvmlInsufficientSize;
  std::memcpy(to, text.c_str(), text.size() + 1);
  return kNvmlSuccess;
}

NvmlReturn GlobalResult(const std::string& name, std::unique_lock<std::mutex>& lock) {
  if (fake().answers.count(name) == 0) return kNvmlSuccess;
  return Ask(fake().answers, name, lock).result;
}

bool IsScripted(NvmlDevice handle, const std::string& name) {
  const std::unique_lock lock(fake().mutex);
  const Target target = TargetOf(handle);
  return target.device != nullptr && target.device->answers.count(name) > 0;
}

constexpr unsigned kLeastMhz = 210, kMostMhz = 1980, kStepMhz = 15;
constexpr unsigned kLeastMw = 200'000, kMostMw = 700'000;
constexpr unsigned kMemoryMhz = 2619;

// The last value in the file of settings. Without a value, or after "reset", it is `otherwise`.
unsigned LastSet(const Device& device, const std::string& what, unsigned otherwise) {
  const char* path = std::getenv("FAKE_NVML_SETTINGS");
  std::ifstream file(path == nullptr ? "" : path);
  unsigned now = otherwise;
  for (std::string uuid, name, value; file >> uuid >> name >> value;) {
    if (uuid != device.uuid || name != what) continue;
    now = value == "reset" ? otherwise : static_cast<unsigned>(std::stoul(value));
  }
  return now;
}

// One write, so a line is complete even if this process is killed.
NvmlReturn SetIn(const Device& device, const std::string& what) {
  const char* path = std::getenv("FAKE_NVML_SETTINGS");
  if (path == nullptr) return kNvmlNoPermission;
  std::ofstream(path, std::ios::app) << device.uuid + " " + what + "\n" << std::flush;
  return kNvmlSuccess;
}

}  // namespace

#define FAKE_NVML extern "C" __attribute__((visibility("default"))) NvmlReturn

FAKE_NVML nvmlInit_v2() {
  std::unique_lock lock(fake().mutex);
  Load();
  Fake& state = fake();
  const NvmlReturn result = GlobalResult("nvmlInit", lock);
  if (result != kNvmlSuccess) return result;
  ++state.users;
  if (state.initialized) return kNvmlSuccess;
  state.last_init_s = NowS();
  if (state.first_init_s == 0) state.first_init_s = state.last_init_s;
  ++state.generation;
  state.initialized = true;
  return kNvmlSuccess;
}

FAKE_NVML nvmlShutdown() {
  std::unique_lock lock(fake().mutex);
  if (--fake().users == 0) fake().initialized = false;
  return kNvmlSuccess;
}

FAKE_NVML nvmlSystemGetDriverVersion(char* version, unsigned size) {
  std::unique_lock lock(fake().mutex);
  return CopyText(fake().driver, version, size);
}

FAKE_NVML nvmlDeviceGetCount_v2(unsigned* count) {
  std::unique_lock lock(fake().mutex);
  if (!fake().initialized) return kNvmlUninitialized;
  *count = static_cast<unsigned>(fake().devices.size());
  return GlobalResult("nvmlDeviceGetCount", lock);
}

FAKE_NVML nvmlDeviceGetHandleByIndex_v2(unsigned index, NvmlDevice* device) {
  std::unique_lock lock(fake().mutex);
  if (!fake().initialized) return kNvmlUninitialized;
  if (index >= fake().devices.size()) return kNvmlInvalidArgument;
  *device = HandleOf(index, 0);
  auto& answers = fake().devices[index].answers;
  const std::string name = "nvmlDeviceGetHandleByIndex";
  return answers.count(name) == 0 ? kNvmlSuccess : Ask(answers, name, lock).result;
}

FAKE_NVML nvmlDeviceGetHandleByUUID(const char* uuid, NvmlDevice* device) {
  std::unique_lock lock(fake().mutex);
  if (!fake().initialized) return kNvmlUninitialized;
  for (size_t i = 0; i < fake().devices.size(); ++i) {
    if (fake().devices[i].uuid != uuid) continue;
    *device = HandleOf(i, 0);
    return kNvmlSuccess;
  }
  return kNvmlNotFound;
}

FAKE_NVML nvmlDeviceGetUUID(NvmlDevice handle, char* uuid, unsigned size) {
  return OfDevice(handle, "nvmlDeviceGetUUID", [&](const Device& device, const Target& target) {
    return CopyText(target.instance == 0 ? device.uuid : device.instances[target.instance - 1],
                    uuid, size);
  });
}

FAKE_NVML nvmlDeviceGetName(NvmlDevice handle, char* name, unsigned size) {
  return OfDevice(handle, "nvmlDeviceGetName", [&](const Device& device, const Target&) {
    return CopyText(device.name, name, size);
  });
}

#ifdef FAKE_NVML_OLD
#define FAKE_NVML_PCI nvmlDeviceGetPciInfo_v2
#define FAKE_NVML_PROCESSES nvmlDeviceGetComputeRunningProcesses
#define FAKE_NVML_REASONS nvmlDeviceGetCurrentClocksThrottleReasons
#else
#define FAKE_NVML_PCI nvmlDeviceGetPciInfo_v3
#define FAKE_NVML_PROCESSES nvmlDeviceGetComputeRunningProcesses_v3
#define FAKE_NVML_REASONS nvmlDeviceGetCurrentClocksEventReasons
#endif

FAKE_NVML FAKE_NVML_PCI(NvmlDevice handle, NvmlPci* pci) {
  return OfDevice(handle, "nvmlDeviceGetPciInfo", [&](const Device& device, const Target&) {
    pci->domain = 0;
    pci->bus = device.bus;
    pci->device = 0;
    return kNvmlSuccess;
  });
}

FAKE_NVML nvmlDeviceGetCudaComputeCapability(NvmlDevice handle, int* major, int* minor) {
  return OfDevice(handle, "nvmlDeviceGetCudaComputeCapability",
                  [&](const Device& device, const Target&) {
                    *major = device.major;
                    *minor = device.minor;
                    return kNvmlSuccess;
                  });
}

FAKE_NVML nvmlDeviceGetVirtualizationMode(NvmlDevice handle, int* mode) {
  return OfDevice(handle, "nvmlDeviceGetVirtualizationMode",
                  [&](const Device& device, const Target&) {
                    *mode = device.virtualization;
                    return kNvmlSuccess;
                  });
}

FAKE_NVML FAKE_NVML_PROCESSES(NvmlDevice handle, unsigned* count, NvmlProcess* processes) {
  return OfDevice(handle, "nvmlDeviceGetComputeRunningProcesses",
                  [&](const Device& device, const Target&) {
                    const auto room = *count;
                    *count = static_cast<unsigned>(device.processes.size());
                    if (room < *count) return kNvmlInsufficientSize;
                    for (size_t i = 0; i < device.processes.size(); ++i) {
                      processes[i] = NvmlProcess{device.processes[i], 1 << 20, ~0U, ~0U};
                    }
                    return kNvmlSuccess;
                  });
}

FAKE_NVML nvmlDeviceGetPowerUsage(NvmlDevice handle, unsigned* power_mw) {
  return Fill(handle, "nvmlDeviceGetPowerUsage", power_mw);
}

FAKE_NVML nvmlDeviceGetEnforcedPowerLimit(NvmlDevice handle, unsigned* limit_mw) {
  return Fill(handle, "nvmlDeviceGetEnforcedPowerLimit", limit_mw);
}

FAKE_NVML nvmlDeviceGetPowerManagementLimit(NvmlDevice handle, unsigned* limit_mw) {
  return OfDevice(handle, "nvmlDeviceGetPowerManagementLimit",
                  [&](const Device& device, const Target&) {
                    *limit_mw = LastSet(device, "limit_mw", kMostMw);
                    return kNvmlSuccess;
                  });
}

FAKE_NVML nvmlDeviceGetPowerManagementLimitConstraints(NvmlDevice handle, unsigned* least_mw,
                                                       unsigned* most_mw) {
  return OfDevice(handle, "nvmlDeviceGetPowerManagementLimitConstraints",
                  [&](const Device&, const Target&) {
                    *least_mw = kLeastMw;
                    *most_mw = kMostMw;
                    return kNvmlSuccess;
                  });
}

FAKE_NVML nvmlDeviceSetPowerManagementLimit(NvmlDevice handle, unsigned limit_mw) {
  return OfDevice(handle, "nvmlDeviceSetPowerManagementLimit",
                  [&](const Device& device, const Target&) {
                    if (limit_mw < kLeastMw || limit_mw > kMostMw) return kNvmlInvalidArgument;
                    return SetIn(device, "limit_mw " + std::to_string(limit_mw));
                  });
}

FAKE_NVML nvmlDeviceGetClockInfo(NvmlDevice handle, int kind, unsigned* clock_mhz) {
  if (kind == kNvmlClockSm && !IsScripted(handle, "nvmlDeviceGetClockInfo:1")) {
    return OfDevice(handle, "nvmlDeviceGetClockInfo", [&](const Device& device, const Target&) {
      *clock_mhz = LastSet(device, "clock", kMostMhz);
      return kNvmlSuccess;
    });
  }
  return Fill(handle, "nvmlDeviceGetClockInfo:" + std::to_string(kind), clock_mhz);
}

FAKE_NVML nvmlDeviceGetTemperature(NvmlDevice handle, int, unsigned* celsius) {
  return Fill(handle, "nvmlDeviceGetTemperature", celsius);
}

FAKE_NVML FAKE_NVML_REASONS(NvmlDevice handle, unsigned long long* reasons) {
  return Fill(handle, "nvmlDeviceGetCurrentClocksEventReasons", reasons);
}

FAKE_NVML nvmlDeviceGetPerformanceState(NvmlDevice handle, unsigned* state) {
  return Fill(handle, "nvmlDeviceGetPerformanceState", state);
}

FAKE_NVML nvmlDeviceGetMemoryInfo(NvmlDevice handle, NvmlMemory* memory) {
  const Answered answered = AskDevice(handle, "nvmlDeviceGetMemoryInfo");
  if (answered.result == kNvmlSuccess && answered.values.size() == 2) {
    memory->used = static_cast<unsigned long long>(answered.values[0]);
    memory->total = static_cast<unsigned long long>(answered.values[1]);
    memory->free = memory->total - memory->used;
  }
  return answered.result;
}

FAKE_NVML nvmlDeviceGetUtilizationRates(NvmlDevice handle, NvmlUtilization* utilization) {
  const Answered answered = AskDevice(handle, "nvmlDeviceGetUtilizationRates");
  if (answered.result == kNvmlSuccess && answered.values.size() == 2) {
    utilization->gpu = static_cast<unsigned>(answered.values[0]);
    utilization->memory = static_cast<unsigned>(answered.values[1]);
  }
  return answered.result;
}

FAKE_NVML nvmlDeviceGetSamples(NvmlDevice handle, int, unsigned long long last_seen_us,
                               int* value_type, unsigned* count, NvmlSample* samples) {
  int64_t period_us = 0;
  int64_t now_us = 0;
  const NvmlReturn result =
      OfDevice(handle, "nvmlDeviceGetSamples", [&](const Device& device, const Target&) {
        if (!device.sample_period_us) return kNvmlNotSupported;
        period_us = *device.sample_period_us;
        if (device.samples_again) last_seen_us = 0;
        const clockid_t clock = device.sample_clock == "realtime" ? CLOCK_REALTIME : CLOCK_BOOTTIME;
        now_us = static_cast<int64_t>(NowS(clock) * 1e6);
        if (device.sample_clock == "none") now_us += int64_t{1} << 50;
        return kNvmlSuccess;
      });
  if (result != kNvmlSuccess) return result;
  const Answered answered = AskDevice(handle, "nvmlDeviceGetSamples");
  if (answered.result != kNvmlSuccess) return answered.result;
  // A driver stores about 120 samples.
  const auto last_seen = static_cast<int64_t>(last_seen_us);
  int64_t time_us = std::max(last_seen, now_us - 120 * period_us) / period_us * period_us;
  unsigned n = 0;
  for (; time_us <= now_us && n < *count; time_us += period_us) {
    if (time_us <= last_seen) continue;
    samples[n].timestamp_us = static_cast<unsigned long long>(time_us);
    samples[n++].value.uint = static_cast<unsigned>(answered.values.at(0));
  }
  *value_type = kNvmlUnsignedInt;
  *count = n;
  return n == 0 ? kNvmlNotFound : kNvmlSuccess;
}

// Sorted from the highest to the lowest clock, as in drivers.
FAKE_NVML nvmlDeviceGetSupportedMemoryClocks(NvmlDevice handle, unsigned* count, unsigned* mhz) {
  return OfDevice(handle, "nvmlDeviceGetSupportedMemoryClocks", [&](const Device&, const Target&) {
    if (*count < 2) return kNvmlInsufficientSize;
    mhz[0] = kMemoryMhz;
    mhz[1] = kMemoryMhz / 2;
    *count = 2;
    return kNvmlSuccess;
  });
}

FAKE_NVML nvmlDeviceGetSupportedGraphicsClocks(NvmlDevice handle, unsigned memory_mhz,
                                               unsigned* count, unsigned* mhz) {
  return OfDevice(handle, "nvmlDeviceGetSupportedGraphicsClocks",
                  [&](const Device&, const Target&) {
                    const unsigned room = *count;
                    *count = 0;
                    if (memory_mhz != kMemoryMhz) return kNvmlNotFound;
                    for (unsigned each = kMostMhz; each >= kLeastMhz; each -= kStepMhz) {
                      if (*count == room) return kNvmlInsufficientSize;
                      mhz[(*count)++] = each;
                    }
                    return kNvmlSuccess;
                  });
}

#ifndef FAKE_NVML_OLD

FAKE_NVML nvmlDeviceSetGpuLockedClocks(NvmlDevice handle, unsigned least_mhz, unsigned most_mhz) {
  return OfDevice(handle, "nvmlDeviceSetGpuLockedClocks", [&](const Device& device, const Target&) {
    if (least_mhz != most_mhz || least_mhz > kMostMhz) return kNvmlInvalidArgument;
    return SetIn(device, "clock " + std::to_string(least_mhz));
  });
}

FAKE_NVML nvmlDeviceResetGpuLockedClocks(NvmlDevice handle) {
  return OfDevice(
      handle, "nvmlDeviceResetGpuLockedClocks",
      [&](const Device& device, const Target&) { return SetIn(device, "clock reset"); });
}

FAKE_NVML nvmlDeviceGetArchitecture(NvmlDevice handle, unsigned* architecture) {
  return OfDevice(handle, "nvmlDeviceGetArchitecture", [&](const Device& device, const Target&) {
    *architecture = device.architecture;
    return kNvmlSuccess;
  });
}

FAKE_NVML nvmlDeviceGetMigMode(NvmlDevice handle, unsigned* current, unsigned* pending) {
  return OfDevice(handle, "nvmlDeviceGetMigMode", [&](const Device& device, const Target&) {
    *current = *pending = device.split ? 1 : 0;
    return kNvmlSuccess;
  });
}

FAKE_NVML nvmlDeviceGetMaxMigDeviceCount(NvmlDevice handle, unsigned* count) {
  *count = 7;
  return OfDevice(handle, "nvmlDeviceGetMaxMigDeviceCount",
                  [](const Device&, const Target&) { return kNvmlSuccess; });
}

FAKE_NVML nvmlDeviceGetMigDeviceHandleByIndex(NvmlDevice handle, unsigned index,
                                              NvmlDevice* instance) {
  return OfDevice(handle, "nvmlDeviceGetMigDeviceHandleByIndex",
                  [&](const Device& device, const Target& target) {
                    if (index >= device.instances.size()) return kNvmlNotFound;
                    *instance = HandleOf(target.index, index + 1);
                    return kNvmlSuccess;
                  });
}

FAKE_NVML nvmlDeviceGetTotalEnergyConsumption(NvmlDevice handle, unsigned long long* energy_mj) {
  return Fill(handle, "nvmlDeviceGetTotalEnergyConsumption", energy_mj);
}

FAKE_NVML nvmlDeviceGetFieldValues(NvmlDevice handle, int count, NvmlFieldValue* values) {
  std::unique_lock lock(fake().mutex);
  Target target;
  NvmlReturn result = Enter(handle, &target);
  if (result != kNvmlSuccess) return result;
  Device& device = *target.device;
  if (device.answers.count("nvmlDeviceGetFieldValues") != 0) {
    result = Ask(device.answers, "nvmlDeviceGetFieldValues", lock).result;
    if (result != kNvmlSuccess) return result;
  }
  for (int i = 0; i < count; ++i) {
    NvmlFieldValue& value = values[i];
    const Answered answered = Ask(device.answers,
                                  "nvmlDeviceGetFieldValues:" + std::to_string(value.field_id) +
                                      ":" + std::to_string(value.scope_id),
                                  lock);
    if (answered.result < 0) continue;
    value.result = answered.result;
    value.latency_us = 0;
    value.value_type = kNvmlUnsignedInt;
    value.timestamp_us = device.field_age_us ? static_cast<long long>(NowS(CLOCK_REALTIME) * 1e6) -
                                                   *device.field_age_us
                                             : 0;
    if (!answered.values.empty()) value.value.uint = static_cast<unsigned>(answered.values[0]);
  }
  return kNvmlSuccess;
}

struct xplane_time::power::NvmlGpmSampleHandle {
  NvmlDevice device = nullptr;  // null: not filled yet
  double at_s = 0;
};

FAKE_NVML nvmlGpmQueryDeviceSupport(NvmlDevice handle, NvmlGpmSupport* support) {
  if (support->version != kNvmlGpmVersion) return kNvmlInvalidArgument;
  if (IsScripted(handle, "nvmlGpmQueryDeviceSupport")) {
    return Fill(handle, "nvmlGpmQueryDeviceSupport", &support->is_supported);
  }
  return OfDevice(handle, "nvmlGpmQueryDeviceSupport", [&](const Device& device, const Target&) {
    support->is_supported = device.architecture >= kNvmlHopper ? 1 : 0;
    return kNvmlSuccess;
  });
}

FAKE_NVML nvmlGpmSampleAlloc(NvmlGpmSample* sample) {
  std::unique_lock lock(fake().mutex);
  const NvmlReturn result = GlobalResult("nvmlGpmSampleAlloc", lock);
  if (result == kNvmlSuccess) *sample = new NvmlGpmSampleHandle();
  return result;
}

FAKE_NVML nvmlGpmSampleFree(NvmlGpmSample sample) {
  delete sample;
  return kNvmlSuccess;
}

FAKE_NVML nvmlGpmSampleGet(NvmlDevice handle, NvmlGpmSample sample) {
  const NvmlReturn result = AskDevice(handle, "nvmlGpmSampleGet").result;
  if (result == kNvmlSuccess) *sample = {handle, NowS()};
  return result;
}

FAKE_NVML nvmlGpmMetricsGet(NvmlGpmMetrics* metrics) {
  constexpr double kLeastS = 0.1;
  const NvmlGpmSampleHandle &before = *metrics->before, &after = *metrics->after;
  if (metrics->version != kNvmlGpmVersion || before.device == nullptr ||
      before.device != after.device || after.at_s - before.at_s <= kLeastS) {
    return kNvmlInvalidArgument;
  }
  std::unique_lock lock(fake().mutex);
  Target target;
  NvmlReturn result = Enter(after.device, &target);
  if (result != kNvmlSuccess) return result;
  auto& answers = target.device->answers;
  if (answers.count("nvmlGpmMetricsGet") != 0) {
    result = Ask(answers, "nvmlGpmMetricsGet", lock).result;
    if (result != kNvmlSuccess) return result;
  }
  for (unsigned i = 0; i < metrics->metric_count; ++i) {
    NvmlGpmMetric& metric = metrics->metrics[i];
    const Answered answered = Ask(answers, "nvmlGpmMetricsGet:" + std::to_string(metric.id), lock);
    if (answered.result < 0) continue;
    metric.result = answered.result;
    if (!answered.values.empty()) metric.value = answered.values[0];
  }
  return kNvmlSuccess;
}

#endif  // FAKE_NVML_OLD
