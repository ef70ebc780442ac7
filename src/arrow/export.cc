// The table through Arrow's C interface. Every array and schema that is handed out owns
// what it points to, so that a consumer may move children out and release the rest.
#include <cerrno>
#include <string>
#include <utility>

#include "arrow/table.h"

namespace xplane_time::arrow {
namespace {

struct SchemaParts {
  std::string format, name;
  std::vector<ArrowSchema> children;
  std::vector<ArrowSchema*> child_pointers;
  ArrowSchema dictionary = {};
};

void ReleaseSchema(ArrowSchema* schema) {
  for (int64_t i = 0; i < schema->n_children; ++i) {
    ArrowSchema* child = schema->children[i];
    if (child->release != nullptr) child->release(child);
  }
  if (schema->dictionary != nullptr && schema->dictionary->release != nullptr) {
    schema->dictionary->release(schema->dictionary);
  }
  delete static_cast<SchemaParts*>(schema->private_data);
  schema->release = nullptr;
}

// `children` are moved in.
void MakeSchema(std::string format, std::string name, int64_t flags,
                std::vector<ArrowSchema> children, const ArrowSchema* dictionary,
                ArrowSchema* out) {
  auto* parts = new SchemaParts{std::move(format), std::move(name), std::move(children), {}};
  for (ArrowSchema& child : parts->children) parts->child_pointers.push_back(&child);
  *out = {};
  if (dictionary != nullptr) {
    parts->dictionary = *dictionary;
    out->dictionary = &parts->dictionary;
  }
  out->format = parts->format.c_str();
  out->name = parts->name.c_str();
  out->flags = flags;
  out->n_children = static_cast<int64_t>(parts->children.size());
  out->children = parts->child_pointers.data();
  out->release = ReleaseSchema;
  out->private_data = parts;
}

struct ArrayParts {
  std::shared_ptr<const Table> table;  // owns the buffers
  std::vector<const void*> buffers;
  std::vector<ArrowArray> children;
  std::vector<ArrowArray*> child_pointers;
  ArrowArray dictionary = {};
};

void ReleaseArray(ArrowArray* array) {
  for (int64_t i = 0; i < array->n_children; ++i) {
    ArrowArray* child = array->children[i];
    if (child->release != nullptr) child->release(child);
  }
  if (array->dictionary != nullptr && array->dictionary->release != nullptr) {
    array->dictionary->release(array->dictionary);
  }
  delete static_cast<ArrayParts*>(array->private_data);
  array->release = nullptr;
}

void MakeArray(ArrayParts filled, size_t length, size_t null_count, bool has_dictionary,
               ArrowArray* out) {
  auto* parts = new ArrayParts(std::move(filled));
  for (ArrowArray& child : parts->children) parts->child_pointers.push_back(&child);
  *out = {};
  if (has_dictionary) out->dictionary = &parts->dictionary;
  out->length = static_cast<int64_t>(length);
  out->null_count = static_cast<int64_t>(null_count);
  out->n_buffers = static_cast<int64_t>(parts->buffers.size());
  out->buffers = parts->buffers.data();
  out->n_children = static_cast<int64_t>(parts->children.size());
  out->children = parts->child_pointers.data();
  out->release = ReleaseArray;
  out->private_data = parts;
}

void ExportColumn(const std::shared_ptr<const Table>& table, const Column& column,
                  ArrowArray* out) {
  ArrayParts parts;
  parts.table = table;
  parts.buffers = column.buffers();
  const Texts* const dictionary = column.dictionary();
  if (dictionary != nullptr) {
    ArrayParts texts;
    texts.table = table;
    texts.buffers = {nullptr, dictionary->offsets(), dictionary->chars()};
    MakeArray(std::move(texts), dictionary->size(), 0, false, &parts.dictionary);
  }
  MakeArray(std::move(parts), column.size(), column.unknown_count(), dictionary != nullptr, out);
}

void ExportTable(const std::shared_ptr<const Table>& table, ArrowArray* out) {
  ArrayParts parts;
  parts.table = table;
  parts.buffers = {nullptr};
  parts.children.resize(table->columns.size());
  for (size_t i = 0; i < table->columns.size(); ++i) {
    ExportColumn(table, table->columns[i], &parts.children[i]);
  }
  MakeArray(std::move(parts), table->row_count(), 0, false, out);
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

// The end is an array without a release.
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

void ExportSchema(const Table& table, ArrowSchema* schema) {
  std::vector<ArrowSchema> children(table.columns.size());
  for (size_t i = 0; i < children.size(); ++i) {
    const Column& column = table.columns[i];
    ArrowSchema texts = {};
    const bool category = column.dictionary() != nullptr;
    if (category) MakeSchema("U", "", 0, {}, nullptr, &texts);
    MakeSchema(column.format(), column.name(), ARROW_FLAG_NULLABLE, {}, category ? &texts : nullptr,
               &children[i]);
  }
  MakeSchema("+s", "", 0, std::move(children), nullptr, schema);
}

void Export(std::shared_ptr<const Table> table, ArrowArrayStream* stream) {
  *stream = {GetSchema, GetNext, NoError, ReleaseStream, new Stream{std::move(table)}};
}

}  // namespace xplane_time::arrow
