// SPDX-License-Identifier: Apache-2.0
// How each kind of output of a recorded operation is created again for every launch. Tensors get memory of their own; a
// later launch reuses it only when no other reference is left, so the result of a launch never changes.
#pragma once

#include <concepts>
#include <optional>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "sluice/graph/compiled_graph.hpp"
#include "sluice/graph/graph_input.hpp"
#include "sluice/op/shared.hpp"
#include "sluice/runtime/pending.hpp"
#include "sluice/runtime/tensor.hpp"

namespace sluice::detail {

// A plain value, copied for each launch.
template <typename T>
class graph_output {
    static_assert(std::copy_constructible<T>,
                  "compile: an output is a tensor, a pending value, something that can be copied, or several of these");

public:
    void learn(const T& made, graph_recording& recording) {
        static_cast<void>(recording);
        value_.emplace(made);
    }
    T make(std::span<const storage_ref>&) const { return *value_; }

private:
    std::optional<T> value_;
};

// A vector of values. Vectors of tensors are refused: their length might differ from launch to launch.
template <typename T>
class graph_output<std::vector<T>> {
    static_assert(std::copy_constructible<T>,
                  "compile: tensors and pending values are outputs one by one or in a tuple, not in a vector");

public:
    void learn(const std::vector<T>& made, graph_recording&) { value_ = made; }
    std::vector<T> make(std::span<const storage_ref>&) const { return value_; }

private:
    std::vector<T> value_;
};

template <typename T>
class graph_output<tensor<T>> {
public:
    void learn(const tensor<T>& made, graph_recording& recording) {
        shape_ = made.shape();
        recording.add_output(made.memory());
    }
    tensor<T> make(std::span<const storage_ref>& memory) const {
        const storage_ref& next = memory.front();
        memory = memory.subspan(1);
        return next ? tensor_over<T>(next, shape_) : tensor<T>();
    }

private:
    shape shape_ = shape::none();
};

// A shared tensor that existed before the recording is returned as it is.
template <typename T>
class graph_output<shared<tensor<T>>> {
public:
    void learn(const shared<tensor<T>>& made, graph_recording& recording) {
        // In a replaying recording such memory looks like any other, so the learning pass decides which it is.
        if (recording.is_learning()) is_known_ = made->memory() == nullptr || !made->memory()->is_planned();
        if (is_known_) {
            known_ = made;
            return;
        }
        known_.reset();
        inner_.learn(*made, recording);
    }
    shared<tensor<T>> make(std::span<const storage_ref>& memory) const {
        return known_ ? *known_ : shared<tensor<T>>(inner_.make(memory));
    }

private:
    bool is_known_ = false;
    std::optional<shared<tensor<T>>> known_;
    graph_output<tensor<T>> inner_;
};

template <typename T>
class graph_output<pending<T>> {
public:
    void learn(const pending<T>& made, graph_recording& recording) {
        recording.add_output(made.memory());
        again_ = pending_access::again(made);
        if (!again_) recording.require_recording_each_launch();
    }
    pending<T> make(std::span<const storage_ref>& memory) const {
        const storage_ref& next = memory.front();
        memory = memory.subspan(1);
        return again_(next);
    }

private:
    typename pending<T>::maker again_;
};

template <typename T>
class graph_output<shared<pending<T>>> {
public:
    void learn(const shared<pending<T>>& made, graph_recording& recording) { inner_.learn(*made, recording); }
    shared<pending<T>> make(std::span<const storage_ref>& memory) const {
        return shared<pending<T>>(inner_.make(memory));
    }

private:
    graph_output<pending<T>> inner_;
};

template <typename... Ts>
class graph_output<std::tuple<Ts...>> {
public:
    void learn(const std::tuple<Ts...>& made, graph_recording& recording) {
        learn(made, recording, std::index_sequence_for<Ts...>());
    }
    std::tuple<Ts...> make(std::span<const storage_ref>& memory) const {
        // Braces fix the order of evaluation.
        return std::apply([&](const graph_output<Ts>&... each) { return std::tuple<Ts...>{each.make(memory)...}; },
                          parts_);
    }

private:
    template <std::size_t... Is>
    void learn(const std::tuple<Ts...>& made, graph_recording& recording, std::index_sequence<Is...>) {
        (std::get<Is>(parts_).learn(std::get<Is>(made), recording), ...);
    }

    std::tuple<graph_output<Ts>...> parts_;
};

}  // namespace sluice::detail
