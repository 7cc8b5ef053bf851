#include "case.hpp"

#include <charconv>
#include <cmath>
#include <utility>

namespace headwise::cases {

namespace {

/// d and a capital, as in dQ and dW_q.
bool is_gradient(const std::string& name)
{
    return name.size() >= 2 && name[0] == 'd' && ((name[1] >= 'A' && name[1] <= 'Z') || name.starts_with("db_"));
}

template <class Number>
Number parse_number(const std::string& text, const std::string& what)
{
    Number number{};
    const char* const end = text.data() + text.size();
    const auto [stopped, error] = std::from_chars(text.data(), end, number);
    if (error != std::errc() || stopped != end) throw BadCase(what + " is \"" + text + "\", expected a number");
    return number;
}

double parse_tolerance(const SafetensorsFile& file, const std::string& name)
{
    const auto found = file.metadata.find(name);
    if (found == file.metadata.end()) throw BadCase("no " + name);
    const auto value = parse_number<double>(found->second, name);
    if (!std::isfinite(value) || value < 0) throw BadCase(name + " is " + found->second);
    return value;
}

}  // namespace

Case::Case(const std::filesystem::path& path) : Case(load_safetensors(path)) {}

Case::Case(SafetensorsFile file)
    : file_(std::move(file)), tolerance_{parse_tolerance(file_, "rtol"), parse_tolerance(file_, "atol")}
{
}

std::string Case::op() const
{
    const auto found = file_.metadata.find("op");
    return found == file_.metadata.end() ? "onnx" : found->second;
}

const Tensor* Case::input(const std::string& name) const
{
    used_.insert("in." + name);
    const auto found = file_.tensors.find("in." + name);
    return found == file_.tensors.end() ? nullptr : &found->second;
}

const Tensor& Case::required_input(const std::string& name) const
{
    const Tensor* const tensor = input(name);
    if (tensor == nullptr) throw BadCase("no in." + name);
    return *tensor;
}

const Tensor* Case::expected(const std::string& name) const
{
    used_.insert("out." + name);
    const auto found = file_.tensors.find("out." + name);
    return found == file_.tensors.end() ? nullptr : &found->second;
}

std::vector<std::string> Case::expected_forward() const
{
    std::vector<std::string> names;
    for (const auto& [key, tensor] : file_.tensors)
        if (key.starts_with("out.") && !is_gradient(key.substr(4))) names.push_back(key.substr(4));
    return names;
}

bool Case::has_gradients() const
{
    return std::any_of(file_.tensors.begin(), file_.tensors.end(), [](const auto& entry) {
        return entry.first.starts_with("out.") && is_gradient(entry.first.substr(4));
    });
}

const std::string* Case::attribute(const std::string& name) const
{
    used_.insert("attr." + name);
    const auto found = file_.metadata.find("attr." + name);
    return found == file_.metadata.end() ? nullptr : &found->second;
}

std::int64_t Case::integer(const std::string& name, std::int64_t absent) const
{
    const std::string* const text = attribute(name);
    return text == nullptr ? absent : parse_number<std::int64_t>(*text, "attr." + name);
}

std::optional<double> Case::real(const std::string& name) const
{
    const std::string* const text = attribute(name);
    if (text == nullptr) return std::nullopt;
    return parse_number<double>(*text, "attr." + name);
}

bool Case::flag(const std::string& name) const
{
    const std::int64_t value = integer(name, 0);
    if (value != 0 && value != 1) throw BadCase("attr." + name + " is " + std::to_string(value) + ", expected 0 or 1");
    return value == 1;
}

bool Case::has_attribute(const std::string& name) const
{
    return attribute(name) != nullptr;
}

void Case::require_all_used() const
{
    const auto require = [this](const std::string& name) {
        if (!used_.contains(name)) throw NotSupported(name);
    };
    for (const auto& [name, text] : file_.metadata)
        if (name.starts_with("attr.")) require(name);
    for (const auto& [name, tensor] : file_.tensors) {
        const bool gradient =
            (name.starts_with("out.") && is_gradient(name.substr(4))) || (name == "in.dY" && has_gradients());
        if (!gradient) require(name);
    }
}

Case Case::widened() const
{
    Case wide = *this;
    for (auto& [name, tensor] : wide.file_.tensors) {
        const DType type = tensor.type();
        if (!name.starts_with("in.") || (type != DType::f16 && type != DType::bf16 && type != DType::f32)) continue;
        Tensor doubles(DType::f64, tensor.shape());
        for (std::int64_t i = 0; i < tensor.size(); ++i) doubles.data<double>()[i] = tensor.number(i);
        tensor = std::move(doubles);
    }
    return wide;
}

}  // namespace headwise::cases
