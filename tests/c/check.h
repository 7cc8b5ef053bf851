// Checks of the C test programs: a failed one is reported and counted, and the program goes on.
#pragma once

#include <headwise/headwise.h>

#ifdef __cplusplus
extern "C" {
#endif

extern int failed_checks;

void check_true(int holds, const char* text, const char* file, int line);
void check_near(double got, double want, double tolerance, const char* file, int line);
/// `status` is `want`, and headwise_last_error() contains `message` unless that is null.
void check_status(headwise_status status, headwise_status want, const char* message, const char* file, int line);

#define CHECK(condition) check_true((condition), #condition, __FILE__, __LINE__)
#define CHECK_NEAR(got, want, tolerance) check_near((got), (want), (tolerance), __FILE__, __LINE__)
#define CHECK_OK(status) check_status((status), HEADWISE_OK, NULL, __FILE__, __LINE__)
#define CHECK_INVALID(status, message) check_status((status), HEADWISE_INVALID_ARGUMENT, (message), __FILE__, __LINE__)

/// A dense tensor; the extents of dimensions past `rank` are not used.
headwise_tensor tensor(void* data, headwise_element_type type, int32_t rank, int64_t n0, int64_t n1, int64_t n2,
                       int64_t n3);

// Each file's tests.
void test_attention(void);
void test_options(void);
void test_layer(void);
void test_caches(void);
void test_errors(void);
void test_targets(void);
void test_allocations(void);

// The memory that operator new hands out, of the calling thread only (allocations.cpp).
enum allocation_failure { THROWS_NOTHING, THROWS_BAD_ALLOC, THROWS_ANOTHER_TYPE };
long allocation_count(void);
void fail_next_allocation(enum allocation_failure failure);

#ifdef __cplusplus
}
#endif
