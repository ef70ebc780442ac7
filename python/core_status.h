// Between statuses and Python's exceptions, with and without the GIL.
#pragma once

#include <nanobind/nanobind.h>

#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace xplane_time::python {

// As an exception of xplane_time.errors.
[[noreturn]] inline void Throw(const absl::Status& status) {
  namespace nb = nanobind;
  const std::string code = absl::StatusCodeToString(status.code());
  const absl::string_view message = status.message();  // may quote bytes that are no text
  const nb::object text = nb::steal(PyUnicode_DecodeUTF8(
      message.data(), static_cast<Py_ssize_t>(message.size()), "backslashreplace"));
  const nb::object error =
      nb::module_::import_("xplane_time.errors").attr("from_status")(code, text);
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error.ptr())), error.ptr());
  throw nb::python_error();
}

template <typename T>
T ValueOf(absl::StatusOr<T> result) {
  if (!result.ok()) Throw(result.status());
  return *std::move(result);
}

// Without the GIL; `read` must not touch Python.
template <typename Read>
auto WithoutGil(Read read) {
  auto result = [&] {
    const nanobind::gil_scoped_release release;
    return read();
  }();
  return ValueOf(std::move(result));
}

// Ctrl-C, for work that asks between its parts: KeyboardInterrupt, or what the signal's handler
// raises.
class Interrupt {
 public:
  // Needs no GIL.
  bool IsPressed() {
    const nanobind::gil_scoped_acquire acquire;
    if (!raised_.has_value() && PyErr_CheckSignals() != 0) raised_.emplace();
    return raised_.has_value();
  }
  void Raise() {
    if (raised_.has_value()) throw nanobind::python_error(*std::move(raised_));
  }

 private:
  std::optional<nanobind::python_error> raised_;
};

// As WithoutGil(); `read` asks `interrupt` and returns an error once it is pressed.
template <typename Read>
auto WithoutGil(Interrupt* interrupt, Read read) {
  auto result = [&] {
    const nanobind::gil_scoped_release release;
    return read();
  }();
  interrupt->Raise();
  return ValueOf(std::move(result));
}

}  // namespace xplane_time::python
