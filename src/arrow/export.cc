// The table through Arrow's C interface. Every array and schema that is handed out owns
// what it points to, so that a consumer may move children out and release the rest.
#include <cerrno>
#include <string>
#include <utility>

#include "arrow/table.h"

namespace xplane_time::arrow {
namespace {

// What a schema or an array points to.
template <typename Exported>
struct Parts {
  std::string format = {}, name = {};       // of a schema
  std::shared_ptr<const Table> table = {};  // of an array: owns the buffers
  std::vector<const void*> buffers = {};
  std::vector<Exported> children = {};
  std::vector<Exported*> child_pointers = {};
  Exported dictionary = {};  // not there: without a release
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
