// Table: named columns of equal length in Arrow's layout, made from rows of any kind, and their
// export through Arrow's C interface. Exporting does not copy: exported objects keep the table
// alive.
//
//   Table kernels = FromRows(result::TableOf("kernels", std::span(report.kernels)));
//   Export(std::make_shared<const Table>(std::move(kernels)), &stream);
//
// Every exported array and schema owns the memory it points to, so a consumer may move children out
// and release the rest.
//
//   number    8 bytes a row: int64, uint64 or double       bool   1 bit a row
//   text      64-bit offsets into UTF-8                     each with an optional bitmap:
//   category  32-bit codes into a dictionary of texts       0 if the value is unknown
//
// Immutable once shared; then safe to use from several threads.
#pragma once

#include <memory>
#include <new>

#include "result/result.h"
#include "xplane_time/arrow_c_data.h"

namespace xplane_time::arrow {

// A vector whose resize() leaves new elements uninitialized, so that several threads can fill it.
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

// Concatenated texts, converted to valid UTF-8 (text.h) when they are added.
class Texts {
 public:
  void Add(std::string_view text);
  size_t size() const { return offsets_.size() - 1; }
  std::string_view operator[](size_t i) const {
    const auto begin = static_cast<size_t>(offsets_[i]), end = static_cast<size_t>(offsets_[i + 1]);
    return std::string_view(chars_).substr(begin, end - begin);
  }
  std::vector<const void*> buffers() const { return {offsets_.data(), chars_.data()}; }

 private:
  std::vector<int64_t> offsets_ = {0};
  std::string chars_;
};

// One bit for each row.
class Bits {
 public:
  void Add(bool bit) {
    if (size_ % 8 == 0) bytes_.push_back(0);
    if (bit) bytes_.back() = static_cast<uint8_t>(bytes_.back() | 1u << size_ % 8);
    ++size_;
  }
  bool operator[](size_t i) const { return (bytes_[i / 8] >> i % 8 & 1) != 0; }
  size_t size() const { return size_; }
  const uint8_t* data() const { return bytes_.data(); }

 private:
  std::vector<uint8_t> bytes_;
  size_t size_ = 0;
};

// The values are Arrow's format characters.
enum class ColumnType : char {
  kBool = 'b',
  kInt64 = 'l',
  kUint64 = 'L',
  kDouble = 'g',
  kText = 'U',
  kCategory = 'i',
};

class Column {
 public:
  // monostate means unknown.
  using Value = result::FieldValue::variant;

  // Numbers of kInt64, kUint64 or kDouble by their bits; codes of kCategory, as indices in
  // `dictionary`.
  using Cells = std::variant<UnsetVector<uint64_t>, UnsetVector<int32_t>, Bits, Texts>;

  // `known` is empty if all cells are known.
  Column(std::string name, ColumnType type, Cells cells, Bits known = {},
         std::shared_ptr<const Texts> dictionary = nullptr);

  // The value must have the column's type or be unknown; a value that is not finite counts as
  // unknown. Not for kCategory.
  void Add(const Value& value);

  const std::string& name() const { return name_; }
  ColumnType type() const { return type_; }
  size_t size() const {
    return std::visit([](const auto& cells) { return cells.size(); }, cells_);
  }
  size_t unknown_count() const { return unknown_count_; }
  bool known(size_t row) const { return known_.size() == 0 || known_[row]; }
  // For kCategory, the text.
  Value At(size_t row) const;

  // In Arrow's order: validity, then data.
  std::vector<const void*> buffers() const;
  const Texts* dictionary() const { return dictionary_.get(); }

 private:
  std::string name_;
  ColumnType type_;
  Cells cells_;
  Bits known_;
  std::shared_ptr<const Texts> dictionary_;
  size_t unknown_count_ = 0;
};

struct Table {
  std::vector<Column> columns;

  size_t row_count() const { return columns.empty() ? 0 : columns[0].size(); }
};

// A column for each field, with the names of the CSV.
Table FromRows(const result::Table& rows);

// One batch with all rows. The caller must release `*stream`.
void Export(std::shared_ptr<const Table> table, ArrowArrayStream* stream);
void ExportSchema(const Table& table, ArrowSchema* schema);

}  // namespace xplane_time::arrow
