// One case: typed access to the inputs, attributes and expected outputs of a file, and a record of what was looked at.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include <headwise/tensor_view.hpp>

#include "safetensors.hpp"

namespace headwise::cases {

/// The case asks for something that the runner or the library does not do; the message names it. The case is skipped.
struct NotSupported : std::runtime_error {
    using std::runtime_error::runtime_error;
};

/// The case contradicts itself or lacks what its kind needs. The case fails.
struct BadCase : std::runtime_error {
    using std::runtime_error::runtime_error;
};

struct Tolerance {
    double rtol = 0;
    double atol = 0;
};

/// Inputs, attributes and outputs count as used once they are asked for by name. A runner asks for all it understands
/// and then calls require_all_used(), so that nothing in a file is ever ignored silently.
class Case {
public:
    /// Throws FormatError for a broken file and BadCase for tolerances that are missing, negative or not finite.
    explicit Case(const std::filesystem::path& path);
    explicit Case(SafetensorsFile file);

    /// "layer", "sdpa" or "onnx"; "onnx" where the file has none.
    std::string op() const;
    Tolerance tolerance() const noexcept { return tolerance_; }

    /// The tensor in.NAME, or null. Owned by the case.
    const Tensor* input(const std::string& name) const;
    /// As input(); throws BadCase where it is missing.
    const Tensor& required_input(const std::string& name) const;

    /// The tensor out.NAME, or null.
    const Tensor* expected(const std::string& name) const;
    /// Names of the outputs to compare, gradients left out, without "out.".
    std::vector<std::string> expected_forward() const;
    /// Whether out.* has gradients, which the runner does not compute.
    bool has_gradients() const;

    /// The attribute attr.NAME, or `absent`. Throws BadCase for text that is not such a number.
    std::int64_t integer(const std::string& name, std::int64_t absent) const;
    std::optional<double> real(const std::string& name) const;
    bool flag(const std::string& name) const;
    bool has_attribute(const std::string& name) const;

    /// Throws NotSupported naming the in.*, out.* or attr.* that nobody asked for. With gradients, in.dY is known.
    void require_all_used() const;

    /// The same case with its floating inputs as doubles.
    Case widened() const;

private:
    const std::string* attribute(const std::string& name) const;

    SafetensorsFile file_;
    Tolerance tolerance_;
    mutable std::set<std::string> used_;
};

/// A dense view of `tensor`; dimensions that are missing at the front are 1.
/// Throws NotSupported where the element type is not T, BadCase where the rank is above Rank or 0.
template <class T, int Rank>
TensorView<const T, Rank> view(const Tensor& tensor, const std::string& name)
{
    if (tensor.type() != DTypeOf<T>::value)
        throw NotSupported(name + " is " + describe(tensor) + ", not " + std::string(cases::name(DTypeOf<T>::value)));
    if (tensor.rank() < 1 || tensor.rank() > static_cast<std::size_t>(Rank))
        throw BadCase(name + " is " + describe(tensor) + ", expected rank " + std::to_string(Rank) + " or less");
    std::array<std::int64_t, Rank> shape;
    shape.fill(1);
    std::copy(tensor.shape().begin(), tensor.shape().end(), shape.end() - static_cast<std::ptrdiff_t>(tensor.rank()));
    return {tensor.data<T>(), shape};
}

/// The same of a tensor to be written.
template <class T, int Rank>
TensorView<T, Rank> mutable_view(Tensor& tensor, const std::string& name)
{
    const TensorView<const T, Rank> read_only = view<T, Rank>(tensor, name);
    return {tensor.data<T>(), read_only.shape, read_only.strides};
}

/// Calls function.template operator()<T>() for the floating element type `type`. Throws NotSupported for others.
template <class Function>
auto with_element_type(DType type, Function&& function)
{
    switch (type) {
        case DType::f32: return function.template operator()<float>();
        case DType::f64: return function.template operator()<double>();
        case DType::f16: return function.template operator()<float16>();
        case DType::bf16: return function.template operator()<bfloat16>();
        default: throw NotSupported("tensors of " + std::string(name(type)));
    }
}

}  // namespace headwise::cases
