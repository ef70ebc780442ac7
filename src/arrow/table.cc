#include "arrow/table.h"

#include <bit>
#include <utility>

#include "output/text.h"

namespace xplane_time::arrow {

void Texts::Add(std::string_view text) {
  chars_.append(output::ValidUtf8(text));
  offsets_.push_back(static_cast<int64_t>(chars_.size()));
}

namespace {

size_t CountUnknown(const Bits& known) {
  size_t count = 0;
  for (size_t i = 0; i < known.size(); ++i) count += known[i] ? 0 : 1;
  return count;
}

}  // namespace

Column::Column(std::string name, ColumnType type, UnsetVector<uint64_t> numbers, Bits known)
    : name_(std::move(name)),
      type_(type),
      numbers_(std::move(numbers)),
      known_(std::move(known)),
      unknown_count_(CountUnknown(known_)) {}

Column::Column(std::string name, UnsetVector<int32_t> codes,
               std::shared_ptr<const Texts> dictionary, Bits known)
    : name_(std::move(name)),
      type_(ColumnType::kCategory),
      codes_(std::move(codes)),
      dictionary_(std::move(dictionary)),
      known_(std::move(known)),
      unknown_count_(CountUnknown(known_)) {}

void Column::Add(const Value& value) {
  const bool is_known = !std::holds_alternative<std::monostate>(value);
  if (!is_known && unknown_count_++ == 0) {
    for (size_t i = size(); i > 0; --i) known_.Add(true);
  }
  if (unknown_count_ > 0) known_.Add(is_known);
  switch (type_) {
    case ColumnType::kBool:
      return bits_.Add(is_known && std::get<bool>(value));
    case ColumnType::kInt64:
      numbers_.push_back(is_known ? std::bit_cast<uint64_t>(std::get<int64_t>(value)) : 0);
      return;
    case ColumnType::kUint64:
      numbers_.push_back(is_known ? std::get<uint64_t>(value) : 0);
      return;
    case ColumnType::kDouble:
      numbers_.push_back(is_known ? std::bit_cast<uint64_t>(std::get<double>(value)) : 0);
      return;
    case ColumnType::kText:
    case ColumnType::kCategory:
      return texts_.Add(is_known ? std::get<std::string_view>(value) : std::string_view());
  }
}

size_t Column::size() const {
  switch (type_) {
    case ColumnType::kBool:
      return bits_.size();
    case ColumnType::kText:
      return texts_.size();
    case ColumnType::kCategory:
      return codes_.size();
    default:
      return numbers_.size();
  }
}

Column::Value Column::At(size_t row) const {
  if (!known(row)) return std::monostate();
  switch (type_) {
    case ColumnType::kBool:
      return bits_[row];
    case ColumnType::kInt64:
      return std::bit_cast<int64_t>(numbers_[row]);
    case ColumnType::kUint64:
      return numbers_[row];
    case ColumnType::kDouble:
      return std::bit_cast<double>(numbers_[row]);
    case ColumnType::kText:
      return texts_[row];
    case ColumnType::kCategory:
      break;
  }
  return (*dictionary_)[static_cast<size_t>(codes_[row])];
}

const char* Column::format() const {
  switch (type_) {
    case ColumnType::kBool:
      return "b";
    case ColumnType::kInt64:
      return "l";
    case ColumnType::kUint64:
      return "L";
    case ColumnType::kDouble:
      return "g";
    case ColumnType::kText:
      return "U";
    case ColumnType::kCategory:
      break;
  }
  return "i";
}

std::vector<const void*> Column::buffers() const {
  const void* known = unknown_count_ > 0 ? known_.bytes() : nullptr;
  switch (type_) {
    case ColumnType::kBool:
      return {known, bits_.bytes()};
    case ColumnType::kText:
      return {known, texts_.offsets(), texts_.chars()};
    case ColumnType::kCategory:
      return {known, codes_.data()};
    default:
      return {known, numbers_.data()};
  }
}

}  // namespace xplane_time::arrow
