def text(one, figures, seeds): return one.title
