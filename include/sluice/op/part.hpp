// part: work that is submitted once and belongs to everybody who uses it: each waits for it, and is told when it
// fails. What share and unzip stand on. Defined in the runtime, so that combinators need to know nothing of devices.
#pragma once

#include <functional>
#include <memory>

namespace sluice {

class execution_context;

namespace detail {
class part {
public:
    part() = default;

    // Calls submit with a context beside the given one, on the same stream. Throws what that throws.
    static part submit(execution_context& beside, const std::function<void(execution_context&)>& submit);

    // Whoever waits for what is submitted to the context also waits for this, and shares its failure.
    void join(execution_context& context) const;

private:
    std::shared_ptr<const void> submission_;
};
}  // namespace detail

}  // namespace sluice
