// SPDX-License-Identifier: Apache-2.0
#include "sluice/check/check_trace.hpp"

#include <istream>

#include "check/checker.hpp"
#include "check/other_orders.hpp"
#include "check/trace_reader.hpp"

namespace sluice::check {

check_report check_trace(std::istream& trace, const std::filesystem::path& name, const check_options& options) {
    trace_reader reader(trace, name);
    checker checks(options);
    check_report made;
    other_orders orders(options);
    event each;
    while (reader.next(each)) {
        orders.keep(each);
        try {
            checks.take(each);
        } catch (const trace_refusal& why) {
            reader.refuse(why.what());
        }
        ++made.calls;
    }
    made.program = reader.program();
    checks.finish(made);
    if (reader.is_cut()) made.unseen.push_back("what follows line " + std::to_string(reader.line()) + ", which is cut");
    orders.check(made);
    return made;
}

}  // namespace sluice::check
