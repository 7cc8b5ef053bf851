// Tensor: memory, element types and printing.
#include <algorithm>
#include <array>
#include <cstring>

#include "safetensors.hpp"

namespace headwise::cases {

namespace {

struct DTypeRow {
    std::string_view name;
    std::size_t bytes;
};

// In the order of the enumeration.
constexpr std::array<DTypeRow, 13> dtype_rows{{{"BOOL", 1},
                                               {"U8", 1},
                                               {"I8", 1},
                                               {"U16", 2},
                                               {"I16", 2},
                                               {"U32", 4},
                                               {"I32", 4},
                                               {"U64", 8},
                                               {"I64", 8},
                                               {"F16", 2},
                                               {"BF16", 2},
                                               {"F32", 4},
                                               {"F64", 8}}};

std::int64_t product(const std::vector<std::int64_t>& shape)
{
    std::int64_t elements = 1;
    for (const std::int64_t extent : shape)
        if (extent < 0 || __builtin_mul_overflow(elements, extent, &elements))
            throw std::length_error("a tensor of shape " + describe(shape));
    return elements;
}

}  // namespace

std::string_view name(DType type) noexcept
{
    return dtype_rows[static_cast<std::size_t>(type)].name;
}

std::size_t bytes_of(DType type) noexcept
{
    return dtype_rows[static_cast<std::size_t>(type)].bytes;
}

Tensor::Tensor(DType type, std::vector<std::int64_t> shape)
    : type_(type),
      shape_(std::move(shape)),
      size_(product(shape_)),
      bytes_(std::max<std::size_t>(1, static_cast<std::size_t>(size_) * bytes_of(type)), std::byte{0xff})
{
}

Tensor::Tensor(DType type, std::vector<std::int64_t> shape, std::span<const std::byte> bytes)
    : Tensor(type, std::move(shape))
{
    if (bytes.size() != static_cast<std::size_t>(size_) * bytes_of(type))
        throw std::length_error(std::to_string(bytes.size()) + " bytes for " + describe(*this));
    std::copy(bytes.begin(), bytes.end(), bytes_.begin());
}

double Tensor::number(std::int64_t index) const noexcept
{
    const auto i = static_cast<std::size_t>(index);
    switch (type_) {
        case DType::boolean: return data<bool>()[i] ? 1 : 0;
        case DType::u8: return data<std::uint8_t>()[i];
        case DType::i8: return data<std::int8_t>()[i];
        case DType::u16: return data<std::uint16_t>()[i];
        case DType::i16: return data<std::int16_t>()[i];
        case DType::u32: return data<std::uint32_t>()[i];
        case DType::i32: return data<std::int32_t>()[i];
        case DType::u64: return static_cast<double>(data<std::uint64_t>()[i]);
        case DType::i64: return static_cast<double>(data<std::int64_t>()[i]);
        case DType::f16: return static_cast<float>(data<float16>()[i]);
        case DType::bf16: return static_cast<float>(data<bfloat16>()[i]);
        case DType::f32: return data<float>()[i];
        case DType::f64: return data<double>()[i];
    }
    return 0;
}

std::string describe(std::span<const std::int64_t> shape)
{
    std::string text = "[";
    for (std::size_t r = 0; r < shape.size(); ++r) text += (r == 0 ? "" : ", ") + std::to_string(shape[r]);
    return text + "]";
}

std::string describe(const Tensor& tensor)
{
    return std::string(name(tensor.type())) + " " + describe(tensor.shape());
}

}  // namespace headwise::cases
