// The Arrow C data and C stream interface: the structs that the Arrow format specifies for
// handing columns from one library to another in one process (its pages "The Arrow C data
// interface" and "The Arrow C stream interface"). C and C++.
//
// Example:
//
//   struct ArrowArrayStream stream = {0};  // c.h fills streams; an empty one has no release
//   struct ArrowArray batch;
//   int64_t rows = 0;
//   if (stream.release != NULL) {
//     while (stream.get_next(&stream, &batch) == 0 && batch.release != NULL) {
//       rows += batch.length;
//       batch.release(&batch);
//     }
//     stream.release(&stream);
//   }
//   printf("%lld rows\n", (long long)rows);
#ifndef XPLANE_TIME_ARROW_C_DATA_H_
#define XPLANE_TIME_ARROW_C_DATA_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifndef ARROW_C_DATA_INTERFACE
#define ARROW_C_DATA_INTERFACE

#define ARROW_FLAG_DICTIONARY_ORDERED 1
#define ARROW_FLAG_NULLABLE 2
#define ARROW_FLAG_MAP_KEYS_SORTED 4

struct ArrowSchema {
  const char* format;
  const char* name;
  const char* metadata;
  int64_t flags;
  int64_t n_children;
  struct ArrowSchema** children;
  struct ArrowSchema* dictionary;
  void (*release)(struct ArrowSchema*);
  void* private_data;
};

struct ArrowArray {
  int64_t length;
  int64_t null_count;
  int64_t offset;
  int64_t n_buffers;
  int64_t n_children;
  const void** buffers;
  struct ArrowArray** children;
  struct ArrowArray* dictionary;
  void (*release)(struct ArrowArray*);
  void* private_data;
};

#endif  // ARROW_C_DATA_INTERFACE

#ifndef ARROW_C_STREAM_INTERFACE
#define ARROW_C_STREAM_INTERFACE

struct ArrowArrayStream {
  int (*get_schema)(struct ArrowArrayStream*, struct ArrowSchema* out);
  int (*get_next)(struct ArrowArrayStream*, struct ArrowArray* out);
  const char* (*get_last_error)(struct ArrowArrayStream*);
  void (*release)(struct ArrowArrayStream*);
  void* private_data;
};

#endif  // ARROW_C_STREAM_INTERFACE

#ifdef __cplusplus
}  // extern "C"
#endif

#endif  // XPLANE_TIME_ARROW_C_DATA_H_
