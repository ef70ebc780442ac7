#include "arrow/table.h"

#include <bit>
#include <cmath>
#include <utility>

#include "output/text.h"

namespace xplane_time::arrow {
namespace {

using result::FieldType, result::FieldValue;

size_t CountUnknown(const Bits& known) {
  size_t count = 0;
  for (size_t i = 0; i < known.size(); ++i) count += known[i] ? 0 : 1;
  return count;
}

// Counts are signed: differences of them are meant to be negative at times.
ColumnType TypeOf(FieldType type) {
  switch (type) {
    case FieldType::kBool:
      return ColumnType::kBool;
    case FieldType::kInt64:
    case FieldType::kUint64:
      return ColumnType::kInt64;
    case FieldType::kDouble:
      return ColumnType::kDouble;
    case FieldType::kText:
      break;
  }
  return ColumnType::kText;
}

// The row of names makes the columns; of the others each field adds to its column.
class RowSink : public result::FlatSink {
 public:
  RowSink(bool names, Table* table) : names_(names), table_(*table) {}

 protected:
  void Cell(std::string_view prefix, std::string_view name, const FieldValue& value) override {
    if (names_) {
      table_.columns.emplace_back(std::string(prefix).append(name), TypeOf(value.type()));
      return;
    }
    Column& column = table_.columns[at_++];
    const auto* number = std::get_if<double>(&value);
    if (number != nullptr && !std::isfinite(*number)) return column.Add(std::monostate());
    if (const auto* count = std::get_if<uint64_t>(&value); count != nullptr) {
      return column.Add(static_cast<int64_t>(*count));
    }
    column.Add(value);
  }

 private:
  const bool names_;
  Table& table_;
  size_t at_ = 0;
};

}  // namespace

void Texts::Add(std::string_view text) {
  chars_.append(output::ValidUtf8(text));
  offsets_.push_back(static_cast<int64_t>(chars_.size()));
}

Column::Column(std::string name, ColumnType type) : name_(std::move(name)), type_(type) {
  if (type == ColumnType::kBool) cells_ = Bits();
  if (type == ColumnType::kText) cells_ = Texts();
}

Column::Column(std::string name, ColumnType type, UnsetVector<uint64_t> numbers, Bits known)
    : name_(std::move(name)),
      type_(type),
      cells_(std::move(numbers)),
      known_(std::move(known)),
      unknown_count_(CountUnknown(known_)) {}

Column::Column(std::string name, UnsetVector<int32_t> codes,
               std::shared_ptr<const Texts> dictionary, Bits known)
    : name_(std::move(name)),
      type_(ColumnType::kCategory),
      cells_(std::move(codes)),
      dictionary_(std::move(dictionary)),
      known_(std::move(known)),
      unknown_count_(CountUnknown(known_)) {}

void Column::Add(const Value& value) {
  const bool is_known = !std::holds_alternative<std::monostate>(value);
  if (!is_known && unknown_count_++ == 0) {
    for (size_t i = size(); i > 0; --i) known_.Add(true);
  }
  if (unknown_count_ > 0) known_.Add(is_known);
  if (auto* bits = std::get_if<Bits>(&cells_); bits != nullptr) {
    bits->Add(is_known && std::get<bool>(value));
  } else if (auto* texts = std::get_if<Texts>(&cells_); texts != nullptr) {
    texts->Add(is_known ? std::get<std::string_view>(value) : std::string_view());
  } else {
    uint64_t number = 0;
    if (const auto* whole = std::get_if<int64_t>(&value)) number = std::bit_cast<uint64_t>(*whole);
    if (const auto* count = std::get_if<uint64_t>(&value)) number = *count;
    if (const auto* real = std::get_if<double>(&value)) number = std::bit_cast<uint64_t>(*real);
    std::get<UnsetVector<uint64_t>>(cells_).push_back(number);
  }
}

Column::Value Column::At(size_t row) const {
  if (!known(row)) return std::monostate();
  if (const auto* bits = std::get_if<Bits>(&cells_)) return (*bits)[row];
  if (const auto* texts = std::get_if<Texts>(&cells_)) return (*texts)[row];
  if (const auto* codes = std::get_if<UnsetVector<int32_t>>(&cells_)) {
    return (*dictionary_)[static_cast<size_t>((*codes)[row])];
  }
  const uint64_t number = std::get<UnsetVector<uint64_t>>(cells_)[row];
  if (type_ == ColumnType::kDouble) return std::bit_cast<double>(number);
  if (type_ == ColumnType::kUint64) return number;
  return std::bit_cast<int64_t>(number);
}

std::vector<const void*> Column::buffers() const {
  std::vector<const void*> buffers = {unknown_count_ > 0 ? known_.data() : nullptr};
  if (const auto* texts = std::get_if<Texts>(&cells_)) {
    for (const void* buffer : texts->buffers()) buffers.push_back(buffer);
  } else {
    std::visit(
        [&](const auto& cells) {
          if constexpr (requires { cells.data(); }) buffers.push_back(cells.data());
        },
        cells_);
  }
  return buffers;
}

Table FromRows(const result::Table& rows) {
  Table table;
  RowSink names(/*names=*/true, &table);
  rows.visit(rows.rows, &names);
  for (size_t row = 0; row < rows.rows; ++row) {
    RowSink sink(/*names=*/false, &table);
    rows.visit(row, &sink);
  }
  return table;
}

}  // namespace xplane_time::arrow
