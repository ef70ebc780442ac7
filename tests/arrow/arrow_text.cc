#include "tests/arrow/arrow_text.h"

#include <gtest/gtest.h>

#include <memory>
#include <string_view>
#include <utility>

#include "output/text.h"

namespace xplane_time::testing {
namespace {

bool BitAt(const void* bits, int64_t row) {
  return (static_cast<const uint8_t*>(bits)[row / 8] >> row % 8 & 1) != 0;
}

std::string_view TextAt(const ArrowArray& texts, int64_t row) {
  const auto* offsets = static_cast<const int64_t*>(texts.buffers[1]);
  const auto* chars = static_cast<const char*>(texts.buffers[2]);
  return {chars + offsets[row], static_cast<size_t>(offsets[row + 1] - offsets[row])};
}

void AppendCell(const ArrowSchema& schema, const ArrowArray& array, int64_t row, std::string* out) {
  EXPECT_EQ(array.offset, 0);
  if (array.buffers[0] != nullptr && !BitAt(array.buffers[0], row)) return;
  const void* const data = array.buffers[1];
  switch (schema.format[0]) {
    case 'b':
      out->append(BitAt(data, row) ? "true" : "false");
      break;
    case 'l':
      out->append(std::to_string(static_cast<const int64_t*>(data)[row]));
      break;
    case 'L':
      out->append(std::to_string(static_cast<const uint64_t*>(data)[row]));
      break;
    case 'g':
      output::AppendCsvNumber(static_cast<const double*>(data)[row], out);
      break;
    case 'U':
      output::AppendCsvCell(TextAt(array, row), out);
      break;
    case 'i':
      EXPECT_STREQ(schema.dictionary->format, "U");
      output::AppendCsvCell(TextAt(*array.dictionary, static_cast<const int32_t*>(data)[row]), out);
      break;
    default:
      ADD_FAILURE() << "format " << schema.format;
  }
}

// Null counts as they are told.
void CheckNullCount(const ArrowArray& array) {
  int64_t count = 0;
  for (int64_t row = 0; array.buffers[0] != nullptr && row < array.length; ++row) {
    count += BitAt(array.buffers[0], row) ? 0 : 1;
  }
  EXPECT_EQ(array.null_count, count);
}

}  // namespace

std::string CsvOf(ArrowArrayStream* stream) {
  ArrowSchema schema;
  ArrowArray batch, end;
  EXPECT_EQ(stream->get_schema(stream, &schema), 0);
  EXPECT_EQ(stream->get_next(stream, &batch), 0);
  EXPECT_EQ(stream->get_next(stream, &end), 0);
  EXPECT_EQ(end.release, nullptr);
  EXPECT_EQ(stream->get_last_error(stream), nullptr);
  stream->release(stream);
  EXPECT_EQ(stream->release, nullptr);
  std::string text;
  EXPECT_EQ(schema.n_children, batch.n_children);
  for (int64_t i = 0; i < schema.n_children; ++i) {
    EXPECT_EQ(batch.children[i]->length, batch.length);
    CheckNullCount(*batch.children[i]);
    text.append(i > 0 ? "," : "").append(schema.children[i]->name);
  }
  text.push_back('\n');
  for (int64_t row = 0; row < batch.length; ++row) {
    for (int64_t i = 0; i < schema.n_children; ++i) {
      if (i > 0) text.push_back(',');
      AppendCell(*schema.children[i], *batch.children[i], row, &text);
    }
    text.push_back('\n');
  }
  batch.release(&batch);
  schema.release(&schema);
  return text;
}

std::string CsvOf(arrow::Table table) {
  ArrowArrayStream stream;
  arrow::Export(std::make_shared<const arrow::Table>(std::move(table)), &stream);
  return CsvOf(&stream);
}

}  // namespace xplane_time::testing
