// Events as a table against the events that the reader gives one by one.
#include "arrow/event_table.h"

#include <gtest/gtest.h>

#include <bit>
#include <memory>
#include <string>

#include "output/events.h"
#include "tests/arrow/arrow_text.h"
#include "tests/support/trace_builder.h"
#include "xplane_time/read.h"

namespace xplane_time::testing {
namespace {

// What `events --format csv` prints of all planes.
std::string CsvOfEvents(const Trace& trace, const std::vector<std::string>& stat_names) {
  std::string text;
  output::EventWriter writer({.format = output::Format::kCsv}, stat_names,
                             [&](std::string_view piece) {
                               text.append(piece);
                               return true;
                             });
  const std::vector<std::string_view> names(stat_names.begin(), stat_names.end());
  Diagnostics diagnostics;
  for (uint32_t i = 0; i < trace.lines.size(); ++i) {
    const Line& line = trace.lines[i];
    const Plane& plane = trace.planes[line.plane];
    writer.StartLine({plane.file, plane.host, plane.name, line.shown_name()});
    EXPECT_TRUE(VisitEvents(trace, i, names, &diagnostics, [&](const EventBatch& batch) {
                  for (size_t row = 0; row < batch.size(); ++row) {
                    const std::string name =
                        EventName(plane, batch.metadata[row], batch.metadata_id[row]);
                    std::vector<StatValue> stats;
                    for (size_t c = 0; c < names.size(); ++c) stats.push_back(batch.Stat(c, row));
                    writer.Row({.name = name,
                                .start_ps = batch.start_ps[row],
                                .duration_ps = batch.duration_ps[row],
                                .occurrences = batch.occurrences[row],
                                .stats = stats});
                  }
                  return absl::OkStatus();
                }).ok());
  }
  writer.End();
  return text;
}

const std::vector<std::string> kStats = {"integers", "unsigned",   "huge", "mixed signs",
                                         "doubles",  "texts",      "refs", "anything",
                                         "absent",   "of metadata"};

std::string Events() {
  TraceBuilder t;
  t.Hostname("benchhost");
  for (int64_t plane = 0; plane < 3; ++plane) {
    for (int64_t line = 0; line < 4; ++line) {
      auto stream = t.Gpu(plane).Stream(line);
      for (int64_t i = 0; i < 300 * line; ++i) {
        EventSpec event = {.name = "k" + std::to_string(i % 7), .start_ps = i, .duration_ps = i};
        if (i % 50 == 3) event.duration_ps = -1;  // skipped
        if (i % 60 == 5) event.num_occurrences = 9;
        if (i % 70 == 6) event.metadata_id = 999;
        if (i % 3 == 0) event.stats.push_back({"integers", i - 20});
        if (i % 4 == 0) event.stats.push_back({"unsigned", static_cast<uint64_t>(i)});
        if (i % 5 == 0) event.stats.push_back({"huge", ~uint64_t{0} - static_cast<uint64_t>(i)});
        event.stats.push_back({"doubles", 0.5 * static_cast<double>(i)});
        if (i % 6 == 0) event.stats.push_back({"texts", "t, " + std::to_string(i % 9)});
        event.stats.push_back({"refs", Ref{"r" + std::to_string(i % 5)}});
        if (i % 2 == 0) event.stats.push_back({"mixed signs", int64_t{7}});
        if (i % 2 == 1) event.stats.push_back({"mixed signs", uint64_t{8}});
        StatContent any = i;
        if (i % 4 == 1) any = 1234567.125;  // of more than six digits
        if (i % 4 == 2) any = std::string("text");
        if (i % 4 == 3) any = static_cast<uint64_t>(i);
        event.stats.push_back({"anything", any});
        event.metadata_stats = {{"of metadata", int64_t{42}}};
        stream.Event(event);
      }
    }
  }
  t.Plane("/host:other").Stat({"absent", int64_t{1}});  // of no event
  return t.Bytes();
}

class EventTableTest : public ::testing::Test {
 protected:
  EventTableTest()
      : bytes_(Events()), trace_(OpenTraceFromMemory(bytes_, "events", {}, &reading_)) {
    EXPECT_TRUE(trace_.ok()) << trace_.status();
  }
  arrow::Table TableOf(arrow::EventTableOptions options) {
    Diagnostics diagnostics;
    auto table = arrow::EventsTable(*trace_, options, &diagnostics);
    EXPECT_TRUE(table.ok()) << table.status();
    skipped_ = diagnostics.count(DiagnosticCode::kNegativeDuration);
    without_value_ = diagnostics.count(DiagnosticCode::kStatWithoutValue);
    return *std::move(table);
  }

  std::string bytes_;
  Diagnostics reading_;
  absl::StatusOr<Trace> trace_;
  uint64_t skipped_ = 0, without_value_ = 0;
};

TEST_F(EventTableTest, HoldsWhatTheCommandPrints) {
  const std::string expected = CsvOfEvents(*trace_, kStats);
  for (const int threads : {1, 4}) {
    EXPECT_EQ(CsvOf(TableOf({.stats = kStats, .threads = threads})), expected);
    EXPECT_GT(skipped_, 0u);
    EXPECT_EQ(without_value_, 1u);
  }
}

TEST_F(EventTableTest, TypesFollowFromTheValues) {
  const arrow::Table table = TableOf({.columns = {"name"}, .stats = kStats});
  using arrow::ColumnType;
  const ColumnType expected[] = {
      ColumnType::kCategory, ColumnType::kInt64,    ColumnType::kInt64,    ColumnType::kUint64,
      ColumnType::kInt64,    ColumnType::kDouble,   ColumnType::kCategory, ColumnType::kCategory,
      ColumnType::kCategory, ColumnType::kCategory, ColumnType::kInt64};
  ASSERT_EQ(table.columns.size(), std::size(expected));
  for (size_t i = 0; i < table.columns.size(); ++i) {
    EXPECT_EQ(table.columns[i].type(), expected[i]) << table.columns[i].name();
  }
}

TEST_F(EventTableTest, FiltersAndColumns) {
  const arrow::Table all = TableOf({});
  const arrow::Table some = TableOf({.device = "gpu:1,2",
                                     .line = "^Stream #3",
                                     .name = "^k[12]$",
                                     .columns = {"duration_ps", "plane", "name"},
                                     .min_duration_ps = 500,
                                     .threads = 2});
  ASSERT_EQ(some.columns.size(), 3u);
  EXPECT_EQ(some.columns[0].name(), "plane");  // in the order of the file's columns
  size_t row = 0;
  for (size_t i = 0; i < all.row_count(); ++i) {
    const auto text = [&](size_t column) {
      return std::string(std::get<std::string_view>(all.columns[column].At(i)));
    };
    const int64_t duration_ps = std::get<int64_t>(all.columns[6].At(i));
    const bool wanted = text(2) != "/device:GPU:0" && text(3).starts_with("Stream #3") &&
                        (text(4) == "k1" || text(4) == "k2") && duration_ps >= 500;
    if (!wanted) continue;
    ASSERT_LT(row, some.row_count());
    EXPECT_EQ(some.columns[0].At(row), all.columns[2].At(i));
    EXPECT_EQ(some.columns[1].At(row), all.columns[4].At(i));
    EXPECT_EQ(some.columns[2].At(row), all.columns[6].At(i));
    ++row;
  }
  EXPECT_EQ(row, some.row_count());
  EXPECT_GT(row, 50u);
}

TEST_F(EventTableTest, NothingMatches) {
  const arrow::Table table = TableOf({.name = "nothing", .stats = {"integers"}});
  EXPECT_EQ(table.row_count(), 0u);
  EXPECT_EQ(CsvOf(table), "input,host,plane,line,name,start_ps,duration_ps,occurrences,integers\n");
}

TEST_F(EventTableTest, WhatMakesNoSenseIsTold) {
  Diagnostics diagnostics;
  for (const arrow::EventTableOptions& options :
       {arrow::EventTableOptions{.columns = {"nam"}}, arrow::EventTableOptions{.line = "("},
        arrow::EventTableOptions{.name = "("}, arrow::EventTableOptions{.stats = {"refs", "refs"}},
        arrow::EventTableOptions{.stats = {"name"}}}) {
    EXPECT_TRUE(
        absl::IsInvalidArgument(arrow::EventsTable(*trace_, options, &diagnostics).status()));
  }
}

TEST_F(EventTableTest, AMisspeltStatIsRefusedWithWhatIsNear) {
  Diagnostics diagnostics;
  const absl::Status status =
      arrow::EventsTable(*trace_, {.stats = {"refs", "unsinged"}}, &diagnostics).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_NE(status.message().find("unsinged; did you mean unsigned?"), absl::string_view::npos)
      << status;
}

// One column that a consumer keeps does not need the others, nor the trace.
TEST_F(EventTableTest, ColumnsOutliveTheTrace) {
  ArrowArrayStream stream;
  arrow::Export(std::make_shared<const arrow::Table>(TableOf({.columns = {"name"}})), &stream);
  ArrowArray batch;
  ASSERT_EQ(stream.get_next(&stream, &batch), 0);
  stream.release(&stream);
  ArrowArray name = *batch.children[0];
  batch.children[0]->release = nullptr;
  batch.release(&batch);
  trace_ = absl::UnknownError("gone");
  bytes_.clear();
  const auto* offsets = static_cast<const int64_t*>(name.dictionary->buffers[1]);
  const auto* chars = static_cast<const char*>(name.dictionary->buffers[2]);
  EXPECT_EQ(std::string(chars, static_cast<size_t>(offsets[1])), "k0");
  name.release(&name);
}

}  // namespace
}  // namespace xplane_time::testing
