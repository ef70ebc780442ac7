/* The C interface from C: c_api_test TRACE TRACE_WITH_LOG LOG */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "xplane_time/c.h"

static int failures = 0;

static void check(int holds, const char* what) {
  if (holds) return;
  ++failures;
  fprintf(stderr, "failed: %s\n", what);
}

static void check_error(int status, int expected, char** error, const char* says) {
  check(status == expected, says);
  check(*error != NULL && strstr(*error, says) != NULL, says);
  if (status != expected || *error == NULL || strstr(*error, says) == NULL) {
    fprintf(stderr, "  got status %d: %s\n", status, *error == NULL ? "(null)" : *error);
  }
  xplane_time_free_text(*error);
  *error = NULL;
}

/* The rows of a stream; checks its schema and batch on the way, and moves a child out. */
static int64_t rows_of(struct ArrowArrayStream* stream, const char* column, const char* format) {
  struct ArrowSchema schema;
  struct ArrowArray batch, end, child;
  int64_t rows, at = -1;
  check(stream->get_schema(stream, &schema) == 0, "get_schema");
  check(strcmp(schema.format, "+s") == 0, "a struct");
  for (int64_t i = 0; i < schema.n_children; ++i) {
    if (strcmp(schema.children[i]->name, column) == 0) at = i;
  }
  check(at >= 0, column);
  if (at < 0) exit(1);
  check(strcmp(schema.children[at]->format, format) == 0, "the column's format");
  check(stream->get_next(stream, &batch) == 0 && batch.release != NULL, "a batch");
  check(batch.n_children == schema.n_children, "as many columns");
  check(stream->get_next(stream, &end) == 0 && end.release == NULL, "one batch");
  rows = batch.length;
  child = *batch.children[at];
  batch.children[at]->release = NULL;
  batch.release(&batch);
  schema.release(&schema);
  stream->release(stream);
  check(child.length == rows && child.buffers[1] != NULL, "a child outlives its parent");
  child.release(&child);
  check(child.release == NULL && batch.release == NULL && schema.release == NULL, "released");
  return rows;
}

static void check_queries(xplane_time_trace* trace) {
  char* error = NULL;
  struct ArrowArrayStream stream;
  const char* const stats[] = {"run_id"};
  xplane_time_select_options select = {.struct_size = sizeof select, .device = "all"};
  xplane_time_event_options events = {
      .struct_size = sizeof events, .device = "all", .stats = stats, .stat_count = 1, .threads = 2};
  check(xplane_time_functions(trace, NULL, &stream, &error) == 0, "functions by default");
  check(rows_of(&stream, "active_ps_median", "g") > 0, "functions");
  check(xplane_time_kernels(trace, &select, &stream, &error) == 0, "kernels");
  check(rows_of(&stream, "total_ps", "l") > 0, "kernel rows");
  check(xplane_time_samples(trace, &select, &stream, &error) == 0, "samples");
  check(rows_of(&stream, "span_ps", "l") > 0, "sample rows");
  check(xplane_time_events(trace, &events, &stream, &error) == 0, "events");
  check(rows_of(&stream, "name", "i") > 0, "event rows");
  check(xplane_time_planes(trace, &stream, &error) == 0, "planes");
  check(rows_of(&stream, "line", "U") > 0, "plane rows");

  select.function = "(";
  check_error(xplane_time_functions(trace, &select, &stream, &error), XPLANE_TIME_INVALID_ARGUMENT,
              &error, "RE2");
  select.function = NULL;
  select.metric = "fastest";
  check_error(xplane_time_functions(trace, &select, &stream, &error), XPLANE_TIME_INVALID_ARGUMENT,
              &error, "active, span or sum");
  select.metric = NULL;
  select.device = "gpu:99";
  check_error(xplane_time_functions(trace, &select, &stream, &error),
              XPLANE_TIME_FAILED_PRECONDITION, &error, "the trace has:");
  select.struct_size = sizeof select + 8;
  check_error(xplane_time_functions(trace, &select, &stream, &error), XPLANE_TIME_INVALID_ARGUMENT,
              &error, "newer");
  select.struct_size = 0;
  check(xplane_time_functions(trace, &select, &stream, NULL) == XPLANE_TIME_INVALID_ARGUMENT,
        "no size, and no text wanted");
}

static void check_energy(const char* path, const char* log) {
  char* error = NULL;
  xplane_time_trace* trace = NULL;
  struct ArrowArrayStream kernels, functions, groups;
  const int32_t ordinals[] = {0};
  const char* const ids[] = {"package"};
  const char* const others[] = {"GPU-8f6e"};
  xplane_time_energy_options options = {.struct_size = sizeof options,
                                        .power_log = log,
                                        .map_ordinals = ordinals,
                                        .map_ids = ids,
                                        .map_count = 1};
  xplane_time_energy_streams streams = {.struct_size = sizeof streams,
                                        .kernels = &kernels,
                                        .functions = &functions,
                                        .groups = &groups};
  check(xplane_time_open(&path, 1, NULL, &trace, &error) == 0, "the trace with a log");
  check(xplane_time_energy(trace, &options, &streams, &error) == 0, "energy");
  check(rows_of(&kernels, "energy_j", "g") > 0, "kernels with energies");
  check(rows_of(&functions, "energy_j_ci95_lo", "g") == 3, "functions with energies");
  groups.release(&groups);
  check_error(xplane_time_energy(trace, &options, NULL, &error), XPLANE_TIME_INVALID_ARGUMENT,
              &error, "streams: must not be null");
  options.map_ids = others;
  check_error(xplane_time_energy(trace, &options, &streams, &error),
              XPLANE_TIME_FAILED_PRECONDITION, &error, "no energy can be computed");
  options.map_ordinals = NULL;
  check_error(xplane_time_energy(trace, &options, &streams, &error), XPLANE_TIME_INVALID_ARGUMENT,
              &error, "map_ordinals: must not be null");
  options.map_count = 0;
  options.power_log = path;
  check_error(xplane_time_energy(trace, &options, &streams, &error), XPLANE_TIME_DATA_LOSS, &error,
              path);
  options.power_log = "no/such/log";
  check_error(xplane_time_energy(trace, &options, &streams, &error), XPLANE_TIME_NOT_FOUND, &error,
              "no/such/log");
  xplane_time_close(trace);
}

int main(int argc, char** argv) {
  char* error = NULL;
  xplane_time_trace* trace = NULL;
  const char* missing = "no/such/file.xplane.pb";
  const char* path = argc == 4 ? argv[1] : "";
  if (xplane_time_open(&path, 1, NULL, &trace, &error) != XPLANE_TIME_OK) {
    fprintf(stderr, "%s\n", error);
    return 1;
  }
  check_queries(trace);
  xplane_time_close(trace);
  check_energy(argv[2], argv[3]);
  xplane_time_close(NULL);
  xplane_time_free_text(NULL);
  check_error(xplane_time_open(&missing, 1, NULL, &trace, &error), XPLANE_TIME_NOT_FOUND, &error,
              missing);
  check_error(xplane_time_open_memory("\x0a\x05", 2, NULL, &trace, &error), XPLANE_TIME_DATA_LOSS,
              &error, "byte");
  missing = NULL;
  check_error(xplane_time_open(&missing, 1, NULL, &trace, &error), XPLANE_TIME_INVALID_ARGUMENT,
              &error, "paths[0]: must not be null");
  check_error(xplane_time_open(&path, 1, NULL, NULL, &error), XPLANE_TIME_INVALID_ARGUMENT, &error,
              "trace: must not be null");
  check_error(xplane_time_open_memory(NULL, 2, NULL, &trace, &error), XPLANE_TIME_INVALID_ARGUMENT,
              &error, "bytes: must not be null");
  check_error(xplane_time_functions(NULL, NULL, NULL, &error), XPLANE_TIME_INVALID_ARGUMENT, &error,
              "trace: must not be null");
  check(strlen(xplane_time_version()) >= 5, "a version");
  return failures == 0 ? 0 : 1;
}
