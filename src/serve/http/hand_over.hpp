// SPDX-License-Identifier: Apache-2.0
// hand_over: objects that any thread hands to one other thread, without a lock.
//
// Why no lock: the thread that takes is woken by those that hand over, often on their processor, and would find the
// lock taken. It would then wait until they have a processor again, and they may be less urgent than others.
#pragma once

#include <atomic>
#include <memory>
#include <utility>

namespace sluice::serve {

template <typename T>
class hand_over {
public:
    // A member of the object, by which it is in the list.
    struct link {
        std::shared_ptr<T> object;
        link* next = nullptr;
    };

    hand_over() = default;
    hand_over(const hand_over&) = delete;  // links know it
    hand_over& operator=(const hand_over&) = delete;

    // On any thread. `at` is the object's, which is not in the list. True: it is the first, so the other thread has to
    // be woken. After close() the object is dropped.
    bool push(link& at, std::shared_ptr<T> object) noexcept {
        at.object = std::move(object);
        link* last = last_.load(std::memory_order_acquire);
        do {
            if (last == &closed_) {
                const std::shared_ptr<T> dropped = std::move(at.object);
                return false;
            }
            at.next = last;
        } while (!last_.compare_exchange_weak(last, &at, std::memory_order_release, std::memory_order_acquire));
        return last == nullptr;
    }

    // On the one thread, before close(): calls function(object) for each, in the order in which they came. Meanwhile an
    // object may be pushed again.
    template <typename Function>
    void take(const Function& function) {
        link* next = in_order(last_.exchange(nullptr, std::memory_order_acquire));
        while (next != nullptr) {
            const std::shared_ptr<T> object = std::move(next->object);
            next = next->next;
            function(*object);
        }
    }

    // Drops what is there, and all that comes later.
    void close() noexcept {
        link* next = last_.exchange(&closed_, std::memory_order_acq_rel);
        while (next != nullptr && next != &closed_) {
            const std::shared_ptr<T> dropped = std::move(next->object);
            next = next->next;
        }
    }

private:
    static link* in_order(link* last) noexcept {
        link* first = nullptr;
        while (last != nullptr) {
            link* const before = std::exchange(last->next, first);
            first = std::exchange(last, before);
        }
        return first;
    }

    link closed_;
    std::atomic<link*> last_{nullptr};  // each knows the one before
};

}  // namespace sluice::serve
