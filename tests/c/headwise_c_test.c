// The C interface used from C: results against values computed by hand, and every status.
#include "check.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

int failed_checks = 0;

static void report(const char* file, int line)
{
    ++failed_checks;
    printf("%s:%d: failed: ", file, line);
}

void check_true(int holds, const char* text, const char* file, int line)
{
    if (holds) return;
    report(file, line);
    printf("%s\n", text);
}

void check_near(double got, double want, double tolerance, const char* file, int line)
{
    if (fabs(got - want) <= tolerance || (isinf(want) && got == want)) return;
    report(file, line);
    printf("got %.9g, want %.9g within %g\n", got, want, tolerance);
}

void check_status(headwise_status status, headwise_status want, const char* message, const char* file, int line)
{
    if (status == want && (message == NULL || strstr(headwise_last_error(), message) != NULL)) return;
    report(file, line);
    printf("status %d, want %d with \"%s\"; message \"%s\"\n", (int)status, (int)want, message == NULL ? "" : message,
           headwise_last_error());
}

headwise_tensor tensor(void* data, headwise_element_type type, int32_t rank, int64_t n0, int64_t n1, int64_t n2,
                       int64_t n3)
{
    const int64_t shape[4] = {n0, n1, n2, n3};
    headwise_tensor made;
    CHECK_OK(headwise_dense_tensor(&made, data, type, rank, shape));
    return made;
}

int main(void)
{
    CHECK(strcmp(headwise_last_error(), "") == 0);
    test_attention();
    test_options();
    test_layer();
    test_caches();
    test_errors();
    test_targets();
    test_allocations();
    printf("headwise %s: %d failed checks\n", headwise_version(), failed_checks);
    return failed_checks == 0 ? 0 : 1;
}
