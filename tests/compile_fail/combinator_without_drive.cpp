// SPDX-License-Identifier: Apache-2.0
// A combinator that cannot drive its source is refused where an operation with a host-driven source is run.
#include <sluice/sluice.hpp>

template <sluice::operation Source>
class same_operation : public sluice::operation_base<same_operation<Source>> {
public:
    using output = sluice::output_of<Source>;

    explicit same_operation(Source source) : source_(std::move(source)) {}
    output submit(sluice::execution_context& context) &&
    requires sluice::can_submit<Source>
    {
        return std::move(source_).submit(context);
    }
    sluice::work_estimate estimate() const { return source_.estimate(); }

private:
    Source source_;
};

int run(sluice::scheduling_policy& pool) {
#ifdef SLUICE_EXPECT_OK
    auto source = sluice::value(1);
#else
    auto source = sluice::retry(2, [] { return sluice::value(1); });
#endif
    return sync(same_operation<decltype(source)>(std::move(source)).transform([](int x) { return x; }), pool);
}
