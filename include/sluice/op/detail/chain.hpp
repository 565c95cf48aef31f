// SPDX-License-Identifier: Apache-2.0
// chain: how an operation that holds any_operations is submitted and dropped with a stack of constant depth, however
// long the program made it while it ran.
//
// Each any_operation is a link. Before a link is submitted, the links inside its operation are: its operation's
// next_link gives them one at a time, in the order of submission, down to the innermost one. A submitted link keeps its
// output, and the operation around it finds the output there. Functions are called and commands submitted in the same
// order as without a chain.
//
// An operation takes part by its member
//     detail::chain_link* next_link(execution_context*& context);
// which returns the next link inside that must be submitted before the operation itself, or null. It may replace
// `context` by the one for that link, and may throw instead of submitting. After each submission it is called again,
// and it is called until it returns null or throws. Without that member an operation works too, and takes stack.
#pragma once

#include <cstddef>
#include <exception>
#include <memory>
#include <new>
#include <utility>

#include "sluice/op/detail/link_memory.hpp"
#include "sluice/op/operation.hpp"

namespace sluice::detail {

class chain_link {
public:
    chain_link() = default;
    chain_link(const chain_link&) = delete;  // owned through a pointer only
    chain_link& operator=(const chain_link&) = delete;
    virtual ~chain_link() = default;

    static void* operator new(std::size_t bytes) { return link_memory::take(bytes); }
    static void operator delete(void* memory, std::size_t bytes) noexcept { link_memory::drop(memory, bytes); }
    static void* operator new(std::size_t bytes, std::align_val_t alignment) {
        return ::operator new(bytes, alignment);
    }
    static void operator delete(void* memory, std::align_val_t alignment) noexcept {
        ::operator delete(memory, alignment);
    }

    // Its operation's: see above.
    virtual chain_link* next_link(execution_context*& context) = 0;
    // Submits it; keeps its output, or the exception.
    virtual void submit_and_keep(execution_context& context) noexcept = 0;
    virtual void keep_failure(std::exception_ptr failure) noexcept = 0;

    // Deletes it, and then the links that it owned, one after the other. A link that is dropped while another one is
    // being deleted on this thread is deleted right after that one.
    static void drop(std::unique_ptr<chain_link> link) noexcept {
        if (link == nullptr) return;
        static thread_local chain_link* dropped = nullptr;  // a list
        static thread_local bool is_deleting = false;
        link->outer_ = std::exchange(dropped, link.get());
        link.release();
        if (std::exchange(is_deleting, true)) return;
        while (dropped != nullptr) {
            const std::unique_ptr<chain_link> last(std::exchange(dropped, dropped->outer_));
        }
        is_deleting = false;
    }

    // Submits the links inside this one, and then this one.
    void submit_chain(execution_context& context) noexcept {
        outer_ = nullptr;
        context_ = &context;
        for (chain_link* link = this; link != nullptr;) {
            execution_context* target = link->context_;
            try {
                if (chain_link* const inner = link->next_link(target)) {
                    inner->outer_ = link;
                    inner->context_ = target;
                    link = inner;
                    continue;
                }
                link->submit_and_keep(*link->context_);
            } catch (...) {
                link->keep_failure(std::current_exception());
            }
            link = link->outer_;
        }
    }

private:
    chain_link* outer_ = nullptr;  // the link around it in a chain that is being submitted; the next one in a list
    execution_context* context_ = nullptr;
};

}  // namespace sluice::detail
