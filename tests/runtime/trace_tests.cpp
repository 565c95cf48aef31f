#include "sluice/runtime/trace.hpp"

#include <gtest/gtest.h>

#include <cstdlib>

#include "runtime/support/sample_trace.hpp"

namespace sluice {

// For a look at it: SLUICE_TIMELINE=picture.svg.
TEST(timeline, can_be_saved_to_be_looked_at) {
    const char* file = std::getenv("SLUICE_TIMELINE");
    if (file == nullptr) GTEST_SKIP() << "set SLUICE_TIMELINE to a file name";
    save_timeline(testing::sample_trace(), file, {.title = "Four batches on four streams"});
}

}  // namespace sluice
