// Tables from rows, and their export through Arrow's C interface.
//
// An exported schema or array owns a Parts object, which release() deletes. Parts of arrays hold a
// shared_ptr to the table, so the buffers live as long as any exported array; nothing is copied. A
// parent releases only those children that the consumer has not moved out (their release is still
// set).
//
// Validity bitmaps are only created when a column gets its first unknown value.
#include "arrow/table.h"

#include <bit>
#include <cmath>

#include "output/text.h"

namespace xplane_time::arrow {
namespace {

// The row of names creates the columns; in other rows, each field is added to its column.
class RowSink : public result::FlatSink {
 public:
  RowSink(bool names, Table* table) : names_(names), table_(*table) {}

 protected:
  void Cell(std::string_view prefix, std::string_view name,
            const result::FieldValue& value) override {
    if (!names_) return table_.columns[at_++].Add(value);
    // Counts are signed, because their differences may be negative.
    constexpr ColumnType kTypes[] = {ColumnType::kBool, ColumnType::kInt64, ColumnType::kInt64,
                                     ColumnType::kDouble, ColumnType::kText};
    const ColumnType type = kTypes[static_cast<size_t>(value.type())];
    Column::Cells cells;
    if (type == ColumnType::kBool) cells = Bits();
    if (type == ColumnType::kText) cells = arrow::Texts();
    table_.columns.emplace_back(std::string(prefix).append(name), type, std::move(cells));
  }

 private:
  const bool names_;
  Table& table_;
  size_t at_ = 0;
};

// The memory that a schema or an array points to.
template <typename Exported>
struct Parts {
  std::string format = {}, name = {};       // for a schema
  std::shared_ptr<const Table> table = {};  // for an array: owns the buffers
  std::vector<const void*> buffers = {};
  std::vector<Exported> children = {};
  std::vector<Exported*> child_pointers = {};
  Exported dictionary = {};  // without a release function if there is no dictionary
};

template <typename Exported>
void Release(Exported* exported) {
  for (int64_t i = 0; i < exported->n_children; ++i) {
    Exported* child = exported->children[i];
    if (child->release != nullptr) child->release(child);
  }
  if (exported->dictionary != nullptr && exported->dictionary->release != nullptr) {
    exported->dictionary->release(exported->dictionary);
  }
  delete static_cast<Parts<Exported>*>(exported->private_data);
  exported->release = nullptr;
}

template <typename Exported>
Parts<Exported>* Own(Parts<Exported> filled, Exported* out) {
  auto* parts = new Parts<Exported>(std::move(filled));
  for (Exported& child : parts->children) parts->child_pointers.push_back(&child);
  *out = {};
  if (parts->dictionary.release != nullptr) out->dictionary = &parts->dictionary;
  out->n_children = static_cast<int64_t>(parts->children.size());
  out->children = parts->child_pointers.data();
  out->release = Release<Exported>;
  out->private_data = parts;
  return parts;
}

void MakeSchema(Parts<ArrowSchema> filled, int64_t flags, ArrowSchema* out) {
  const Parts<ArrowSchema>* parts = Own(std::move(filled), out);
  out->format = parts->format.c_str();
  out->name = parts->name.c_str();
  out->flags = flags;
}

void MakeArray(Parts<ArrowArray> filled, size_t length, size_t null_count, ArrowArray* out) {
  Parts<ArrowArray>* parts = Own(std::move(filled), out);
  out->length = static_cast<int64_t>(length);
  out->null_count = static_cast<int64_t>(null_count);
  out->n_buffers = static_cast<int64_t>(parts->buffers.size());
  out->buffers = parts->buffers.data();
}

void ExportTable(const std::shared_ptr<const Table>& table, ArrowArray* out) {
  Parts<ArrowArray> parts = {.table = table, .buffers = {nullptr}};
  for (const Column& column : table->columns) {
    Parts<ArrowArray> cells = {.table = table, .buffers = column.buffers()};
    if (const Texts* dictionary = column.dictionary(); dictionary != nullptr) {
      Parts<ArrowArray> texts = {.table = table, .buffers = dictionary->buffers()};
      texts.buffers.insert(texts.buffers.begin(), nullptr);
      MakeArray(std::move(texts), dictionary->size(), 0, &cells.dictionary);
    }
    MakeArray(std::move(cells), column.size(), column.unknown_count(),
              &parts.children.emplace_back());
  }
  MakeArray(std::move(parts), table->row_count(), 0, out);
}

struct Stream {
  std::shared_ptr<const Table> table;
  bool done = false;
};

Stream* StreamOf(ArrowArrayStream* stream) { return static_cast<Stream*>(stream->private_data); }

int GetSchema(ArrowArrayStream* stream, ArrowSchema* out) {
  ExportSchema(*StreamOf(stream)->table, out);
  return 0;
}

// The end of a stream is an array without a release function.
int GetNext(ArrowArrayStream* stream, ArrowArray* out) {
  *out = {};
  if (!std::exchange(StreamOf(stream)->done, true)) ExportTable(StreamOf(stream)->table, out);
  return 0;
}

const char* NoError(ArrowArrayStream* /*stream*/) { return nullptr; }

void ReleaseStream(ArrowArrayStream* stream) {
  delete StreamOf(stream);
  stream->release = nullptr;
}

}  // namespace

void Texts::Add(std::string_view text) {
  chars_.append(output::ValidUtf8(text));
  offsets_.push_back(static_cast<int64_t>(chars_.size()));
}

Column::Column(std::string name, ColumnType type, Cells cells, Bits known,
               std::shared_ptr<const Texts> dictionary)
    : name_(std::move(name)),
      type_(type),
      cells_(std::move(cells)),
      known_(std::move(known)),
      dictionary_(std::move(dictionary)) {
  for (size_t i = 0; i < known_.size(); ++i) unknown_count_ += known_[i] ? 0 : 1;
}

void Column::Add(const Value& value) {
  const auto* real = std::get_if<double>(&value);
  const bool is_known =
      !std::holds_alternative<std::monostate>(value) && (real == nullptr || std::isfinite(*real));
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
    if (real != nullptr && is_known) number = std::bit_cast<uint64_t>(*real);
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

void ExportSchema(const Table& table, ArrowSchema* schema) {
  Parts<ArrowSchema> parts = {.format = "+s"};
  for (const Column& column : table.columns) {
    Parts<ArrowSchema> of = {.format = {static_cast<char>(column.type())}, .name = column.name()};
    if (column.dictionary() != nullptr) MakeSchema({.format = "U"}, 0, &of.dictionary);
    MakeSchema(std::move(of), ARROW_FLAG_NULLABLE, &parts.children.emplace_back());
  }
  MakeSchema(std::move(parts), 0, schema);
}

void Export(std::shared_ptr<const Table> table, ArrowArrayStream* stream) {
  *stream = {GetSchema, GetNext, NoError, ReleaseStream, new Stream{std::move(table)}};
}

}  // namespace xplane_time::arrow
