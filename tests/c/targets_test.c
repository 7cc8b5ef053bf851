// Targets and scratch memory.
#include "check.h"

#include <string.h>

static void test_choice(void)
{
    size_t count = 0, again = 0;
    CHECK_OK(headwise_available_targets(NULL, 0, &count));
    CHECK(count >= 1 && count <= 8);
    const char* names[9] = {NULL};
    CHECK_OK(headwise_available_targets(names, 8, &again));
    CHECK(again == count && names[count - 1] != NULL && names[count] == NULL);
    const char* first[2] = {NULL, NULL};
    CHECK_OK(headwise_available_targets(first, 1, &again));
    CHECK(again == count && strcmp(first[0], names[0]) == 0 && first[1] == NULL);

    const char* before = NULL;
    CHECK_OK(headwise_active_target(&before));
    for (size_t i = 0; i < count; ++i) {
        const char* active = NULL;
        CHECK_OK(headwise_set_active_target(names[i]));
        CHECK_OK(headwise_active_target(&active));
        CHECK(strcmp(active, names[i]) == 0);
        test_attention();  // every target computes
    }
    CHECK_OK(headwise_set_active_target(before));
}

static void test_refusals(void)
{
    const char* before = NULL;
    const char* after = NULL;
    CHECK_OK(headwise_active_target(&before));
    CHECK_INVALID(headwise_set_active_target("abacus"), "target name is \"abacus\"");
    CHECK_INVALID(headwise_set_active_target(NULL), "name is null");
    // No processor has both.
    const headwise_status x86 = headwise_set_active_target("sse2"), arm = headwise_set_active_target("neon");
    CHECK((x86 == HEADWISE_OK) + (arm == HEADWISE_OK) == 1);
    CHECK_OK(headwise_set_active_target(before));
    CHECK_OK(headwise_active_target(&after));
    CHECK(strcmp(before, after) == 0);
    CHECK_INVALID(headwise_active_target(NULL), "name is null");
    CHECK_INVALID(headwise_available_targets(NULL, 1, NULL), "names is null");
    CHECK_INVALID(headwise_available_targets(&before, 1, NULL), "count is null");
}

void test_targets(void)
{
    test_choice();
    test_refusals();
}
