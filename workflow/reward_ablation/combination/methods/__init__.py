"""Methods of combination, one file each. The function has the name of its file.

`load.load_method` imports the file that the config names (`combine: {method: NAME}`), so that a new file is a new
method.

In their formulas, i is a completion, g its group, k a component, and l_k a component's multiplier. r are the scores and
w the weights that the method gets (see `call_method`), z the z-scores of r in the group, and A the advantages. mean_g
and std_g are over the group, mean_batch and std_batch over all completions of a generation. g_k is the gradient of
component k at its z-scores, G has the inner products of these gradients, and d is the combined direction.
"""
