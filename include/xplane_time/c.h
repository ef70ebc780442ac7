/* C interface: for other languages, and for programs that may not depend on C++.
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
 *     ...                                  columns as in the CSV output of the command
 *     functions.release(&functions);
 *   }
 *   xplane_time_close(trace);
 *
 * Functions return a status. Where that is not XPLANE_TIME_OK and `error` is not null,
 * `*error` is a text for xplane_time_free_text(); outputs are then unset. A trace may be
 * used by several threads at once. Streams do not need the trace any more.
 *
 * Structs of options begin with their size and only grow: set it to sizeof, the rest to
 * zero, and what is not known to an older library is an error, never ignored. */
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
  XPLANE_TIME_INVALID_ARGUMENT = 3,    /* an option that makes no sense */
  XPLANE_TIME_NOT_FOUND = 5,           /* no such file */
  XPLANE_TIME_PERMISSION_DENIED = 7,   /* a file that may not be read */
  XPLANE_TIME_RESOURCE_EXHAUSTED = 8,  /* no memory, a gzip bomb */
  XPLANE_TIME_FAILED_PRECONDITION = 9, /* a sound trace without what was asked for */
  XPLANE_TIME_INTERNAL = 13,           /* a bug */
  XPLANE_TIME_UNAVAILABLE = 14,        /* a file that cannot be read */
  XPLANE_TIME_DATA_LOSS = 15           /* damaged: the text has the place */
};

typedef struct xplane_time_trace xplane_time_trace;

typedef struct xplane_time_open_options {
  size_t struct_size;
  int threads;     /* 0: 1 */
  const char* run; /* of log directories; null: the latest */
} xplane_time_open_options;

/* Texts: null for the default, which is that of the command line. */
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
  int threads;                /* 0: 1 */
  const char* exclude_kernel; /* RE2 */
  const char* collective_re;  /* RE2: kernels that are collectives, whatever they are called */
  const char* copy_re;        /* RE2: kernels that are copies */
} xplane_time_select_options;

typedef struct xplane_time_event_options {
  size_t struct_size;
  const char* device; /* null: the accelerators */
  const char* line;   /* RE2 */
  const char* name;   /* RE2 */
  const char* const* stats;
  size_t stat_count;
  int threads; /* 0: 1 */
} xplane_time_event_options;

/* Texts: as above. */
typedef struct xplane_time_energy_options {
  size_t struct_size;
  const char* power_log; /* of power record; null: the trace has power counters */
  const char* device;
  const char* function; /* RE2: filters choose rows and change no number */
  const char* exclude;  /* RE2 */
  const char* kernel;   /* RE2 */
  const char* scope;    /* RE2 */
  const char* layer_re; /* a layer is what the first group matches in a name scope */
  const char* layers;   /* a CSV file of when layers ran */
  /* Device map_ordinals[i] of the trace is map_ids[i] of the log, or what begins so. */
  const int32_t* map_ordinals;
  const char* const* map_ids;
  size_t map_count;
  int threads;                /* 0: 1 */
  const char* exclude_kernel; /* RE2 */
} xplane_time_energy_options;

/* Where the tables of energies go; null: not wanted. */
typedef struct xplane_time_energy_streams {
  size_t struct_size;
  struct ArrowArrayStream* devices;
  struct ArrowArrayStream* kernels;
  struct ArrowArrayStream* functions;
  struct ArrowArrayStream* layers;
  struct ArrowArrayStream* sources;
  struct ArrowArrayStream* groups;   /* of which only the sum is known */
  struct ArrowArrayStream* findings; /* what is doubtful */
} xplane_time_energy_streams;

/* Paths of traces, of run directories, or of one log directory. `options` may be null, as
 * everywhere. */
XPLANE_TIME_API int xplane_time_open(const char* const* paths, size_t path_count,
                                     const xplane_time_open_options* options,
                                     xplane_time_trace** trace, char** error);
/* `bytes` (plain or gzip) must outlive the trace; they are not copied. */
XPLANE_TIME_API int xplane_time_open_memory(const void* bytes, size_t size,
                                            const xplane_time_open_options* options,
                                            xplane_time_trace** trace, char** error);
XPLANE_TIME_API void xplane_time_close(xplane_time_trace* trace); /* null: nothing */

/* One row a function and device; a kernel, function and device; a run; an event; a line. */
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

/* Energies in joules, from a power log beside the trace (docs/energy.md); unknown is null, with a
 * reason. FAILED_PRECONDITION: no device has a number. */
XPLANE_TIME_API int xplane_time_energy(const xplane_time_trace* trace,
                                       const xplane_time_energy_options* options,
                                       const xplane_time_energy_streams* streams, char** error);

XPLANE_TIME_API void xplane_time_free_text(char* text); /* null: nothing */
XPLANE_TIME_API const char* xplane_time_version(void);  /* "0.1.0" */

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* XPLANE_TIME_C_H_ */
