// SPDX-License-Identifier: Apache-2.0
// pairing_heap: a priority queue of objects that carry its links (Fredman, Sedgewick, Sleator, Tarjan 1986). It
// allocates nothing and never fails. push: O(1). pop and remove: O(log n) amortised.
//
// A node has members next_, child_ and previous_ of type Node*. The heap owns them while the node is in it.
// Before()(a, b) returns whether a comes out before b. Equal nodes come out in any order.
//
// Thread safety: none.
#pragma once

#include <utility>

namespace sluice::detail {

template <typename Node, typename Before>
class pairing_heap {
public:
    bool empty() const noexcept { return root_ == nullptr; }
    // The first node; null when the heap is empty.
    Node* top() const noexcept { return root_; }

    void push(Node& node) noexcept {
        node.child_ = nullptr;
        root_ = root_ == nullptr ? &node : merge(root_, &node);
    }
    // Removes and returns the first node. The heap must not be empty.
    Node* pop() noexcept { return std::exchange(root_, merge_pairs(root_->child_)); }
    // Removes a node, which must be in the heap.
    void remove(Node& node) noexcept {
        if (&node == root_) {
            pop();
            return;
        }
        (node.previous_->child_ == &node ? node.previous_->child_ : node.previous_->next_) = node.next_;
        if (node.next_ != nullptr) node.next_->previous_ = node.previous_;
        if (Node* const below = merge_pairs(node.child_)) root_ = merge(root_, below);
    }

private:
    // Merges two heaps, given by their roots; returns the new root. A root's next_ and previous_ have no meaning. The
    // previous_ of a first child is its parent; that of any other node is the sibling before it.
    static Node* merge(Node* a, Node* b) noexcept {
        if (Before()(*b, *a)) std::swap(a, b);
        b->next_ = std::exchange(a->child_, b);
        if (b->next_ != nullptr) b->next_->previous_ = b;
        b->previous_ = a;
        return a;
    }

    // The heap of these siblings: first merged in pairs from the left, then the pairs from the right.
    static Node* merge_pairs(Node* siblings) noexcept {
        Node* pairs = nullptr;
        while (siblings != nullptr) {
            Node* const first = siblings;
            Node* const second = first->next_;
            siblings = second != nullptr ? second->next_ : nullptr;
            Node* const pair = second != nullptr ? merge(first, second) : first;
            pair->next_ = std::exchange(pairs, pair);
        }
        Node* root = nullptr;
        while (pairs != nullptr) {
            Node* const pair = std::exchange(pairs, pairs->next_);
            root = root == nullptr ? pair : merge(root, pair);
        }
        return root;
    }

    Node* root_ = nullptr;
};

}  // namespace sluice::detail
