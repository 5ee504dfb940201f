// A hook in C++ that throws what its configuration says.
#include "sconce.hpp"

SCONCE_PLUGIN("thrower", "0.1.0", "Throws.",
              SCONCE_HOOK("thrower", "Throws as told.", 30, SCONCE_AT(AFTER_ITER, "after_iter"),
                          SCONCE_JSON({"type": "object", "properties": {"what": {"type": "string"}}})));

class Thrower : public sconce::hook {
 public:
  explicit Thrower(const sconce::setup &setup) : what_(setup.string("/what", "")) {
    if (what_ == "config") throw sconce::config_error("what", "refused as told");
  }

  void call(const sconce::task &task) override {
    if (what_ == "error") throw sconce::error("it failed as told");
    if (what_ == "standard") throw std::out_of_range("beyond the end");
    if (what_ == "other") throw 7;
    if (what_ == "host") {
      std::size_t index = 0;
      const sconce_tensors_table &tensors = sconce::require(task.host().tensors, SCONCE_TENSORS_ID);
      task.check(tensors.find(task.context(), SCONCE_PARAMETERS, sconce_str("fc9"), &index, task.error()));
    }
  }

 private:
  std::string what_;
};

SCONCE_EXPORT_KINDS(sconce::kind<Thrower>("thrower"));
