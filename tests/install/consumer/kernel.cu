// A user's kernel file: compiled by nvcc where Sluice has CUDA, by the host compiler elsewhere.
#include <sluice/runtime/error.hpp>
#include <type_traits>

template <class Value>
requires std::is_floating_point_v<Value>  // C++20, also under nvcc
Value doubled(Value value) {
    return value + value;
}

float twice(float value) { return doubled(value); }
