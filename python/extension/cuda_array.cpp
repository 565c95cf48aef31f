// SPDX-License-Identifier: Apache-2.0
#include "cuda_array.hpp"

#include <algorithm>
#include <string_view>

namespace sluice::python {
namespace {

struct pair {
    sluice_type type;
    std::string_view text;  // without the sign for the order of bytes
};
constexpr pair pairs[] = {{SLUICE_F16, "f2"}, {SLUICE_F32, "f4"}, {SLUICE_F64, "f8"}, {SLUICE_I8, "i1"},
                          {SLUICE_U8, "u1"},  {SLUICE_I16, "i2"}, {SLUICE_U16, "u2"}, {SLUICE_I32, "i4"},
                          {SLUICE_U32, "u4"}, {SLUICE_I64, "i8"}, {SLUICE_U64, "u8"}, {SLUICE_BOOL, "b1"}};

sluice_type type_from(std::string_view text) {
    if (text.size() != 3 || (text[0] != '<' && text[0] != '|' && text[0] != '=')) return 0;
    for (const pair& each : pairs)
        if (each.text == text.substr(1)) return each.type;
    return 0;
}

// Throws OverflowError for what is no address.
std::uintptr_t address_in(nb::handle number) {
    const unsigned long long found = PyLong_AsUnsignedLongLong(number.ptr());
    if (PyErr_Occurred() != nullptr) throw nb::python_error();
    return static_cast<std::uintptr_t>(found);
}

class entries {
public:
    entries(nb::handle shown, const std::string& label) : label_(label) {
        if (!nb::isinstance<nb::dict>(shown)) refuse(PyExc_TypeError, "is no dict");
        all_ = nb::borrow<nb::dict>(shown);
    }

    [[noreturn]] void refuse(PyObject* type, const std::string& why) const {
        raise(type, label_ + ": __cuda_array_interface__ " + why);
    }
    nb::object get(const char* name) const {
        if (!all_.contains(name)) refuse(PyExc_TypeError, "has no entry '" + std::string(name) + "'");
        return nb::object(all_[name]);
    }
    nb::object get_or_none(const char* name) const { return all_.contains(name) ? nb::object(all_[name]) : nb::none(); }
    bool has(const char* name) const { return all_.contains(name); }
    // Throws what Python throws for what is no tuple of integers.
    std::vector<std::int64_t> numbers(const char* name) const {
        const nb::object found = get(name);
        if (!nb::isinstance<nb::tuple>(found)) refuse(PyExc_TypeError, "'" + std::string(name) + "' is no tuple");
        std::vector<std::int64_t> made;
        for (const nb::handle each : nb::borrow<nb::tuple>(found)) {
            if (!nb::isinstance<nb::int_>(each))
                refuse(PyExc_TypeError, "'" + std::string(name) + "' has an entry that is no integer");
            made.push_back(nb::cast<std::int64_t>(each));
        }
        return made;
    }

private:
    const std::string& label_;
    nb::dict all_;
};

// Version 2 has no stream: then the legacy default stream is the one that the memory is ready on.
consumer_stream producer_of(const entries& in, std::int64_t version) {
    if (version < 3 && !in.has("stream")) return {legacy_stream(), true};
    const nb::object stream = in.get_or_none("stream");
    if (stream.is_none()) return {};
    if (!nb::isinstance<nb::int_>(stream)) in.refuse(PyExc_TypeError, "'stream' is neither None nor an integer");
    const std::uintptr_t number = address_in(stream);
    if (number == 0) {
        in.refuse(PyExc_ValueError,
                  "has the stream 0, which may mean two streams: 1 is the legacy default stream, 2 that of the thread");
    }
    return {reinterpret_cast<void*>(number), true};
}

// Row-major without gaps. Strides of dimensions of length 1 say nothing, nor do those of an array without elements.
bool is_row_major(const std::vector<std::int64_t>& shape, const std::vector<std::int64_t>& strides,
                  std::size_t element_bytes) {
    if (strides.size() != shape.size()) return false;
    if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return true;
    auto dense = static_cast<std::uint64_t>(element_bytes);
    for (std::size_t i = shape.size(); i-- > 0;) {
        if (shape[i] != 1 && static_cast<std::uint64_t>(strides[i]) != dense) return false;
        dense *= static_cast<std::uint64_t>(shape[i]);
    }
    return true;
}

}  // namespace

consumer_stream consumer_stream::of_dlpack(nb::handle stream) {
    if (stream.is_none()) return {legacy_stream(), true};
    if (!nb::isinstance<nb::int_>(stream)) raise(PyExc_TypeError, "stream is neither None nor an integer");
    if (stream.equal(nb::int_(-1))) return {};
    const std::uintptr_t number = address_in(stream);
    if (number == 0) {
        raise(PyExc_BufferError, "stream 0 may mean two streams: 1 is the legacy default stream");
    }
    if (number == 2) {
        raise(PyExc_BufferError,
              "stream 2, the default stream of each thread, is another one on each thread: take the "
              "tensor on a stream of your own, or on 1, the legacy default stream");
    }
    return {reinterpret_cast<void*>(number), true};
}

std::string cuda_array_type(sluice_type type) {
    for (const pair& each : pairs)
        if (each.type == type) return (sluice_type_size(type) == 1 ? "|" : "<") + std::string(each.text);
    return {};
}

cuda_array::cuda_array(nb::object from, nb::handle shown, const std::string& label) : owner_(std::move(from)) {
    const entries in(shown, label);
    const nb::object version = in.get("version");
    if (!nb::isinstance<nb::int_>(version)) in.refuse(PyExc_TypeError, "'version' is no integer");
    const auto number = nb::cast<std::int64_t>(version);
    if (number != 2 && number != 3) {
        in.refuse(PyExc_ValueError, "has version " + std::to_string(number) + "; 2 and 3 are understood");
    }
    if (!in.get_or_none("mask").is_none()) {
        in.refuse(PyExc_ValueError, "has a mask, which networks do not have: fill what it hides, and leave it out");
    }
    const nb::object type = in.get("typestr");
    if (!nb::isinstance<nb::str>(type)) in.refuse(PyExc_TypeError, "'typestr' is no str");
    const auto text = nb::cast<std::string>(type);
    type_ = type_from(text);
    if (type_ == 0) in.refuse(PyExc_TypeError, "has elements of the type '" + text + "', which networks do not have");
    shape_ = in.numbers("shape");
    for (const std::int64_t each : shape_)
        if (each < 0) in.refuse(PyExc_ValueError, "has the length " + std::to_string(each) + " in 'shape'");
    if (!in.get_or_none("strides").is_none() && !is_row_major(shape_, in.numbers("strides"), sluice_type_size(type_))) {
        in.refuse(PyExc_ValueError, "is not row-major without gaps: make it contiguous first");
    }
    const nb::object data = in.get("data");
    const bool is_pair = nb::isinstance<nb::tuple>(data) && nb::len(data) == 2 && nb::isinstance<nb::int_>(data[0]);
    if (!is_pair) in.refuse(PyExc_TypeError, "'data' is no pair of an address and a flag");
    data_ = reinterpret_cast<const void*>(address_in(nb::object(data[0])));
    producer_ = producer_of(in, number);
}

}  // namespace sluice::python
