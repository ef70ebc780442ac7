/* C interface, for other languages and for programs that may not depend on C++.
 *
 * Example:
 *
 *   xplane_time_trace* trace = NULL;
 *   char* error = NULL;
 *   const char* paths[] = {"trace.xplane.pb"};
 *   if (xplane_time_open(paths, 1, NULL, &trace, &error) != XPLANE_TIME_OK) {
 *     fprintf(stderr, "%s\n", error);
 *     xplane_time_free_text(error);
 *     return 1;
 *   }
 *   struct ArrowArrayStream functions;
 *   if (xplane_time_functions(trace, NULL, &functions, &error) == XPLANE_TIME_OK) {
 *     // Read it as in arrow_c_data.h. Its columns are those of the CSV output of the command.
 *     functions.release(&functions);
 *   }
 *   xplane_time_close(trace);
 *
 * Functions return a status. If it is not XPLANE_TIME_OK and `error` is not null, `*error` is a
 * text that the caller frees with xplane_time_free_text(); outputs are then unset. Several
 * threads may use a trace at once. A stream remains valid after its trace is closed; the
 * consumer calls its release().
 *
 * Structs of options begin with their size, and later versions only append fields. Set struct_size
 * to the sizeof of the struct, and unused fields to zero. If the struct is larger than the one that
 * the library knows, the call fails with XPLANE_TIME_INVALID_ARGUMENT. */
#ifndef XPLANE_TIME_C_H_
#define XPLANE_TIME_C_H_

#include <stddef.h>
#include <stdint.h>

#include "xplane_time/arrow_c_data.h"

#if defined(__GNUC__)
#define XPLANE_TIME_API __attribute__((visibility("default")))
#else
#define XPLANE_TIME_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Status codes, those of absl::StatusCode. */
enum {
  XPLANE_TIME_OK = 0,
  XPLANE_TIME_INVALID_ARGUMENT = 3,    /* an invalid option */
  XPLANE_TIME_NOT_FOUND = 5,           /* no such file */
  XPLANE_TIME_PERMISSION_DENIED = 7,   /* no read permission */
  XPLANE_TIME_RESOURCE_EXHAUSTED = 8,  /* no memory, or a gzip bomb */
  XPLANE_TIME_FAILED_PRECONDITION = 9, /* a valid trace without the requested data */
  XPLANE_TIME_INTERNAL = 13,           /* a bug */
  XPLANE_TIME_UNAVAILABLE = 14,        /* a file that cannot be read */
  XPLANE_TIME_DATA_LOSS = 15           /* a damaged trace; the text has the place */
};

typedef struct xplane_time_trace xplane_time_trace;

typedef struct xplane_time_open_options {
  size_t struct_size;
  int threads;     /* 0 means 1 */
  const char* run; /* run of a log directory; null: the latest */
} xplane_time_open_options;

/* A null text selects the default of the command line. */
typedef struct xplane_time_select_options {
  size_t struct_size;
  const char* device;
  const char* function; /* RE2 */
  const char* exclude;  /* RE2 */
  const char* kernel;   /* RE2 */
  const char* scope;    /* RE2 */
  const char* metric;   /* "active", "span", "sum" */
  const char* clock;    /* "auto", "device", "profile" */
  const char* trim;     /* "none", "drop-extremes", "iqr", "mad", "percent:P" */
  uint64_t skip_runs;
  int threads;                /* 0 means 1 */
  const char* exclude_kernel; /* RE2 */
  const char* collective_re;  /* RE2: kernels that count as collectives */
  const char* copy_re;        /* RE2: kernels that count as copies */
} xplane_time_select_options;

typedef struct xplane_time_event_options {
  size_t struct_size;
  const char* device; /* null: the accelerators */
  const char* line;   /* RE2 */
  const char* name;   /* RE2 */
  const char* const* stats;
  size_t stat_count;
  int threads; /* 0 means 1 */
} xplane_time_event_options;

/* A null text selects the default of the command line. */
typedef struct xplane_time_energy_options {
  size_t struct_size;
  const char* power_log; /* file of `power record`; null: power counters of the trace */
  const char* device;
  const char* function; /* RE2: filters select rows and do not change numbers */
  const char* exclude;  /* RE2 */
  const char* kernel;   /* RE2 */
  const char* scope;    /* RE2 */
  const char* layer_re; /* RE2: its first group in a name scope is the layer */
  const char* layers;   /* a CSV file with the times of layers */
  /* The device with the ordinal map_ordinals[i] in the trace is the device of the power log with
   * the id map_ids[i], or with an id that begins with map_ids[i]. */
  const int32_t* map_ordinals;
  const char* const* map_ids;
  size_t map_count;
  int threads;                /* 0 means 1 */
  const char* exclude_kernel; /* RE2 */
} xplane_time_energy_options;

/* Output streams, one for each table of energies; null: the table is not requested. */
typedef struct xplane_time_energy_streams {
  size_t struct_size;
  struct ArrowArrayStream* devices;
  struct ArrowArrayStream* kernels;
  struct ArrowArrayStream* functions;
  struct ArrowArrayStream* layers;
  struct ArrowArrayStream* sources;
  struct ArrowArrayStream* groups;   /* kernels for which only the sum is known */
  struct ArrowArrayStream* findings; /* doubts about the numbers */
} xplane_time_energy_streams;

/* Opens traces, run directories, or log directories as one trace. `options` may be null, here and
 * in all functions. Close the trace with xplane_time_close(). */
XPLANE_TIME_API int xplane_time_open(const char* const* paths, size_t path_count,
                                     const xplane_time_open_options* options,
                                     xplane_time_trace** trace, char** error);
/* Opens a trace in memory. `bytes` (plain or gzip) are not copied and must outlive the trace. */
XPLANE_TIME_API int xplane_time_open_memory(const void* bytes, size_t size,
                                            const xplane_time_open_options* options,
                                            xplane_time_trace** trace, char** error);
XPLANE_TIME_API void xplane_time_close(xplane_time_trace* trace); /* null: no effect */

/* Each of these functions returns a table. Its columns and units are those of the CSV output of the
 * command. One row of the table describes
 *
 *   xplane_time_functions   a function on a device
 *   xplane_time_kernels     a kernel of a function on a device
 *   xplane_time_samples     a run
 *   xplane_time_events      an event
 *   xplane_time_planes      a line of a plane */
XPLANE_TIME_API int xplane_time_functions(const xplane_time_trace* trace,
                                          const xplane_time_select_options* options,
                                          struct ArrowArrayStream* stream, char** error);
XPLANE_TIME_API int xplane_time_kernels(const xplane_time_trace* trace,
                                        const xplane_time_select_options* options,
                                        struct ArrowArrayStream* stream, char** error);
XPLANE_TIME_API int xplane_time_samples(const xplane_time_trace* trace,
                                        const xplane_time_select_options* options,
                                        struct ArrowArrayStream* stream, char** error);
XPLANE_TIME_API int xplane_time_events(const xplane_time_trace* trace,
                                       const xplane_time_event_options* options,
                                       struct ArrowArrayStream* stream, char** error);
XPLANE_TIME_API int xplane_time_planes(const xplane_time_trace* trace,
                                       struct ArrowArrayStream* stream, char** error);

/* Energies in joules, from a power log that was recorded with the trace (docs/energy.md). An
 * unknown energy is null, with a reason. FAILED_PRECONDITION: no device has a number. */
XPLANE_TIME_API int xplane_time_energy(const xplane_time_trace* trace,
                                       const xplane_time_energy_options* options,
                                       const xplane_time_energy_streams* streams, char** error);

XPLANE_TIME_API void xplane_time_free_text(char* text); /* null: no effect */
XPLANE_TIME_API const char* xplane_time_version(void);  /* "0.1.0" */

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* XPLANE_TIME_C_H_ */
