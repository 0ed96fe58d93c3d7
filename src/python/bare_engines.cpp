#include "bare_engines.h"

#include <pybind11/stl.h>

#include <cstdio>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "executorch/bare_engines_api.h"

namespace py = pybind11;

namespace executorch::backends::tensorrt {
namespace {

/// The loops and the clocks are behind the C functions: nothing of Python is in the times.
class BareEngines {
 public:
  explicit BareEngines(const std::vector<size_t>& numbers) {
    tensorrt_executorch_bare_engines* made = nullptr;
    {
      const py::gil_scoped_release release;
      const int code = tensorrt_executorch_bare_create(numbers.data(), numbers.size(), &made);
      engines_.reset(made);
      require(code);
    }
  }

  std::string no_graphs_because() const { return tensorrt_executorch_bare_no_graphs_because(engines_.get()); }

  std::vector<double> latencies(size_t calls, bool graphs) {
    std::vector<double> microseconds(calls);
    const py::gil_scoped_release release;
    require(tensorrt_executorch_bare_latencies(engines_.get(), graphs, calls, microseconds.data()));
    return microseconds;
  }

  double total(size_t calls, bool graphs) {
    double microseconds = 0;
    const py::gil_scoped_release release;
    require(tensorrt_executorch_bare_total(engines_.get(), graphs, calls, &microseconds));
    return microseconds;
  }

 private:
  struct Destroy {
    void operator()(tensorrt_executorch_bare_engines* engines) const {
      tensorrt_executorch_bare_destroy(engines);
    }
  };

  static void require(int code) {
    if (code != 0) {
      char number[16];
      std::snprintf(number, sizeof(number), "%#x", static_cast<unsigned>(code));
      throw std::runtime_error(std::string("ExecuTorch error ") + number + "; its log has the cause");
    }
  }

  std::unique_ptr<tensorrt_executorch_bare_engines, Destroy> engines_;
};

}  // namespace

void add_bare_engines(py::module_& module) {
  py::class_<BareEngines>(module, "BareEngines")
      .def(py::init<const std::vector<size_t>&>(), py::arg("numbers"))
      .def_property_readonly("no_graphs_because", &BareEngines::no_graphs_because)
      .def("latencies", &BareEngines::latencies, py::arg("calls"), py::kw_only(), py::arg("graphs"))
      .def("total", &BareEngines::total, py::arg("calls"), py::kw_only(), py::arg("graphs"));
}

}  // namespace executorch::backends::tensorrt
