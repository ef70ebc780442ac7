// Table: named columns of equal length in Arrow's layout, and their export through its C
// interface. Nothing is copied on the way out: what is exported keeps the table alive.
//
//   number    8 bytes a row: int64, uint64 or double       bool   1 bit a row
//   text      64-bit offsets into UTF-8                     each with an optional bitmap:
//   category  32-bit codes into a dictionary of texts       0 where the value is unknown
//
// Immutable once shared; then safe to use from several threads.
#ifndef XPLANE_TIME_SRC_ARROW_TABLE_H_
#define XPLANE_TIME_SRC_ARROW_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "xplane_time/arrow_c_data.h"

namespace xplane_time::arrow {

// A vector whose resize() leaves new elements unset, for whoever fills it in parallel.
template <typename T>
struct UnsetAllocator : std::allocator<T> {
  template <typename U>
  struct rebind {
    using other = UnsetAllocator<U>;
  };
  template <typename U>
  void construct(U* at) {
    ::new (static_cast<void*>(at)) U;
  }
  template <typename U, typename... Arguments>
  void construct(U* at, Arguments&&... arguments) {
    ::new (static_cast<void*>(at)) U(std::forward<Arguments>(arguments)...);
  }
};
template <typename T>
using UnsetVector = std::vector<T, UnsetAllocator<T>>;

// Texts, one after the other. Made valid UTF-8 (text.h) as they are added.
class Texts {
 public:
  void Add(std::string_view text);
  size_t size() const { return offsets_.size() - 1; }
  std::string_view operator[](size_t i) const {
    const auto begin = static_cast<size_t>(offsets_[i]), end = static_cast<size_t>(offsets_[i + 1]);
    return std::string_view(chars_).substr(begin, end - begin);
  }
  const int64_t* offsets() const { return offsets_.data(); }
  const char* chars() const { return chars_.data(); }

 private:
  std::vector<int64_t> offsets_ = {0};
  std::string chars_;
};

// One bit a row.
class Bits {
 public:
  void Add(bool bit) {
    if (size_ % 8 == 0) bytes_.push_back(0);
    if (bit) bytes_.back() = static_cast<uint8_t>(bytes_.back() | 1u << size_ % 8);
    ++size_;
  }
  bool operator[](size_t i) const { return (bytes_[i / 8] >> i % 8 & 1) != 0; }
  size_t size() const { return size_; }
  const uint8_t* bytes() const { return bytes_.data(); }

 private:
  std::vector<uint8_t> bytes_;
  size_t size_ = 0;
};

enum class ColumnType : uint8_t { kBool, kInt64, kUint64, kDouble, kText, kCategory };

class Column {
 public:
  // monostate: unknown.
  using Value = std::variant<std::monostate, bool, int64_t, uint64_t, double, std::string_view>;

  Column(std::string name, ColumnType type) : name_(std::move(name)), type_(type) {}
  // Numbers of kInt64, kUint64 or kDouble by their bits; codes of kCategory.
  Column(std::string name, ColumnType type, UnsetVector<uint64_t> numbers, Bits known);
  Column(std::string name, UnsetVector<int32_t> codes, std::shared_ptr<const Texts> dictionary,
         Bits known);

  // Not for kCategory. The value has the column's type, or is unknown.
  void Add(const Value& value);

  const std::string& name() const { return name_; }
  ColumnType type() const { return type_; }
  size_t size() const;
  size_t unknown_count() const { return unknown_count_; }
  bool known(size_t row) const { return known_.size() == 0 || known_[row]; }
  // kCategory: the text.
  Value At(size_t row) const;

  // Arrow's format string, and buffers: validity, then data.
  const char* format() const;
  std::vector<const void*> buffers() const;
  const Texts* dictionary() const { return dictionary_.get(); }

 private:
  std::string name_;
  ColumnType type_;
  UnsetVector<uint64_t> numbers_;
  UnsetVector<int32_t> codes_;
  Bits bits_;
  Texts texts_;
  std::shared_ptr<const Texts> dictionary_;
  Bits known_;  // empty: all are
  size_t unknown_count_ = 0;
};

struct Table {
  std::vector<Column> columns;

  size_t row_count() const { return columns.empty() ? 0 : columns[0].size(); }
};

// One batch with all rows. `*stream` becomes the caller's to release.
void Export(std::shared_ptr<const Table> table, ArrowArrayStream* stream);
void ExportSchema(const Table& table, ArrowSchema* schema);

}  // namespace xplane_time::arrow

#endif  // XPLANE_TIME_SRC_ARROW_TABLE_H_
