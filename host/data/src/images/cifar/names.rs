//! Class names, for archives without the file that contains them.

/// Classes of CIFAR-10, in label order.
pub(super) const TEN: &str = "airplane automobile bird cat deer dog frog horse ship truck";

/// Classes of CIFAR-100, in the order of the fine labels.
pub(super) const FINE: &str = "apple aquarium_fish baby bear beaver bed bee beetle bicycle bottle \
    bowl boy bridge bus butterfly camel can castle caterpillar cattle chair chimpanzee clock cloud \
    cockroach couch crab crocodile cup dinosaur dolphin elephant flatfish forest fox girl hamster \
    house kangaroo keyboard lamp lawn_mower leopard lion lizard lobster man maple_tree motorcycle \
    mountain mouse mushroom oak_tree orange orchid otter palm_tree pear pickup_truck pine_tree \
    plain plate poppy porcupine possum rabbit raccoon ray road rocket rose sea seal shark shrew \
    skunk skyscraper snail snake spider squirrel streetcar sunflower sweet_pepper table tank \
    telephone television tiger tractor train trout tulip turtle wardrobe whale willow_tree wolf \
    woman worm";

/// Groups of CIFAR-100, in the order of the coarse labels.
pub(super) const COARSE: &str = "aquatic_mammals fish flowers food_containers \
    fruit_and_vegetables household_electrical_devices household_furniture insects large_carnivores \
    large_man-made_outdoor_things large_natural_outdoor_scenes large_omnivores_and_herbivores \
    medium_mammals non-insect_invertebrates people reptiles small_mammals trees vehicles_1 \
    vehicles_2";
