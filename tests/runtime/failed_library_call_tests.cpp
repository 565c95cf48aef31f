// SPDX-License-Identifier: Apache-2.0
// A library call that throws while it is submitted: who reads what it was to write gets the failure, from the moment at
// which its ticket can be seen.
#include <gtest/gtest.h>

#include <stdexcept>

#include "runtime/recording_backend.hpp"

namespace sluice::recording::failed_library_call_tests {
namespace {

void fail(const native_stream&, const void*) { throw std::runtime_error("the library fails"); }

// Returns whether a command that reads the block, submitted as soon as the failed call's ticket is issued, has
// inherited the failure.
bool first_reader_inherits(recorded_runtime& with, const storage_ref& block) {
    recording_stream& ours = with.record_of(*with.a);
    recording_stream& theirs = with.record_of(*with.b);
    with.on.block_each_command();  // so the queue waits for the call right after it has issued the ticket
    ours.on_wait = [&] {
        if (theirs.commands.empty()) read(*with.b, block);
    };
    const memory_access written{block.get(), access_mode::write};
    library_command command;
    command.call = &fail;
    EXPECT_THROW(with.a->library_call({"failing", {&written, 1}}, command), std::runtime_error);
    return !theirs.inherits_failure.empty() && theirs.inherits_failure.front();
}

}  // namespace

TEST(failed_library_call, is_seen_by_a_reader_that_comes_right_after_its_ticket) {
    recorded_runtime with;
    const storage_ref block = with.a->allocate(64);
    EXPECT_TRUE(first_reader_inherits(with, block));
}

TEST(failed_library_call, hides_the_failure_that_it_has_inherited_itself) {
    recorded_runtime with;
    const storage_ref input = with.a->allocate(64), output = with.a->allocate(64);
    const memory_access first{input.get(), access_mode::write};
    library_command command;
    command.call = &fail;
    EXPECT_THROW(with.a->library_call({"first", {&first, 1}}, command), std::runtime_error);
    const memory_access both[] = {{input.get(), access_mode::read}, {output.get(), access_mode::write}};
    EXPECT_THROW(with.a->library_call({"second", both}, command), std::runtime_error);
    read(*with.b, output);
    EXPECT_TRUE(with.record_of(*with.b).inherits_failure.back());
}

}  // namespace sluice::recording::failed_library_call_tests
